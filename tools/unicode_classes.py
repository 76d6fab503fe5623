#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes src/text/unicode_table.c from Python's unicodedata: classes of code points that the patterns of
tokenizers speak of, and which of them may change when text is brought into NFC.

Usage: unicode_classes.py > src/text/unicode_table.c
"""
import sys
import unicodedata

CLASSES = {"Lu": 1, "Ll": 2, "Lt": 3, "Lm": 4, "Lo": 5}
# White_Space of PropList.txt; unicodedata does not know it.
SPACES = {*range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000}


def class_of(code):
    if code in SPACES:
        return 8
    category = unicodedata.category(chr(code))
    if category[0] == "M":
        return 6
    if category[0] == "N":
        return 7
    return CLASSES.get(category, 0)


def seconds_of_pairs():
    """Code points that may be composed with the one before them."""
    found = {*range(0x1161, 0x1176), *range(0x11A8, 0x11C3)}  # vowels and final consonants of Hangul
    for code in range(sys.maxunicode + 1):
        parts = unicodedata.decomposition(chr(code)).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            found.add(int(parts[1], 16))
    return found


SECONDS = seconds_of_pairs()


def may_change(code):
    char = chr(code)
    if 0xD800 <= code < 0xE000:
        return 0
    return int(unicodedata.combining(char) != 0 or code in SECONDS or unicodedata.normalize("NFC", char) != char)


def main():
    runs, last = [], None
    for code in range(sys.maxunicode + 1):
        now = may_change(code) << 4 | class_of(code)
        if now != last:
            runs.append(code << 5 | now)
            last = now
    print("/* SPDX-License-Identifier: Apache-2.0 */")
    print("/* Made by tools/unicode_classes.py from the Unicode Character Database, version "
          f"{unicodedata.unidata_version}. */")
    print('#include "text/unicode.h"\n')
    print("const uint32_t orr_unicode_runs[] = {")
    for at in range(0, len(runs), 10):
        print("    " + ", ".join(f"0x{run:x}" for run in runs[at:at + 10]) + ",")
    print("};")
    print("const uint32_t orr_unicode_runs_n = sizeof orr_unicode_runs / sizeof *orr_unicode_runs;")


main()
