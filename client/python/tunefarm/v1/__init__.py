"""The wire: modules that protoc generates from proto/tunefarm/v1. Private; what is public stands in tunefarm itself."""
