#!/usr/bin/env python3
"""Checks with a parser that the pictures in expected/ are well-formed SVG and that nothing is drawn outside of them.

Usage: svg_test.py FOLDER
"""

import pathlib
import re
import sys
import xml.etree.ElementTree as ET

SVG = "{http://www.w3.org/2000/svg}"
KNOWN = {"svg", "rect", "line", "text", "path", "polyline", "polygon", "circle"}


def check(path):
    problems = []
    root = ET.parse(path).getroot()
    if root.tag != SVG + "svg":
        return [f"{path.name}: the root is {root.tag}"]
    width, height = float(root.get("width")), float(root.get("height"))
    for element in root.iter():
        name = element.tag.removeprefix(SVG)
        if name not in KNOWN:
            problems.append(f"{path.name}: <{name}> is not expected")
        points = []
        for x, y in (("x", "y"), ("x1", "y1"), ("x2", "y2"), ("cx", "cy")):
            if element.get(x) is not None and element.get(y) is not None:
                points.append((element.get(x), element.get(y)))
        points += re.findall(r"M(-?[\d.]+) (-?[\d.]+)", element.get("d", ""))
        points += [tuple(pair.split(",")) for pair in element.get("points", "").split()]
        for x, y in points:
            if not (0 <= float(x) <= width and 0 <= float(y) <= height):
                problems.append(f"{path.name}: <{name}> at {x} {y} is outside of {width:.0f} x {height:.0f}")
    if not any(element.tag == SVG + "text" for element in root.iter()):
        problems.append(f"{path.name}: there is no text")
    return problems


def main():
    files = sorted(pathlib.Path(sys.argv[1]).glob("*.svg"))
    problems = [problem for path in files for problem in check(path)]
    for problem in problems:
        print(problem)
    print(f"svg: {len(files)} files, {len(problems)} problems")
    return 1 if problems or not files else 0


if __name__ == "__main__":
    sys.exit(main())
