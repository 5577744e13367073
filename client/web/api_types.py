#!/usr/bin/env python3
"""Writes TypeScript types of the public API: its messages in protobuf's JSON form, and a table of its unary calls.

Usage: api_types.py DESCRIPTORS OUT    (DESCRIPTORS: of protoc --descriptor_set_out)
"""

import sys

from google.protobuf import descriptor_pb2

Field = descriptor_pb2.FieldDescriptorProto
# Integers of 64 bits exceed the exact range of a JavaScript number, and JSON holds bytes in base64: both are strings.
STRINGS = {Field.TYPE_STRING, Field.TYPE_BYTES, Field.TYPE_INT64, Field.TYPE_UINT64, Field.TYPE_SINT64, Field.TYPE_FIXED64,
           Field.TYPE_SFIXED64}
NAMED = {Field.TYPE_MESSAGE, Field.TYPE_ENUM}


def short(name):
    return name.rsplit(".", 1)[1]


def scalar(field):
    if field.type in NAMED:
        return short(field.type_name)
    if field.type == Field.TYPE_BOOL:
        return "boolean"
    return "string" if field.type in STRINGS else "number"


def field_type(field, message):
    entry = next((n for n in message.nested_type if n.options.map_entry and n.name == short("." + field.type_name)), None)
    if entry:
        return f"Record<string, {scalar(entry.field[1])}>"
    return scalar(field) + ("[]" if field.label == Field.LABEL_REPEATED else "")


def declarations(files):
    calls = []
    for file in files:
        for enum in file.enum_type:
            yield f"export type {enum.name} = " + " | ".join(f'"{value.name}"' for value in enum.value) + ";"
        for message in file.message_type:
            fields = "".join(f"  {f.json_name}?: {field_type(f, message)};\n" for f in message.field)
            yield f"export interface {message.name} {{\n{fields}}}"
        for service in file.service:
            calls += [f'  "{file.package}.{service.name}/{m.name}": [{short(m.input_type)}, {short(m.output_type)}];\n'
                      for m in service.method if not m.client_streaming and not m.server_streaming]
    yield "/** Request and answer by call. */\nexport interface Calls {\n" + "".join(calls) + "}"


def main():
    with open(sys.argv[1], "rb") as descriptors:
        files = descriptor_pb2.FileDescriptorSet.FromString(descriptors.read()).file
    with open(sys.argv[2], "w", encoding="utf-8") as out:
        out.write("\n".join(declarations(files)) + "\n")


if __name__ == "__main__":
    main()
