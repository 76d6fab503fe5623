#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files -> one C source that holds their bytes: embed.py OUTPUT.c VERSION FILE...

The C side is src/report/assets.h. A script that holds "</script" would end the
element that it is put in, and a style sheet "</style": both are refused.
"""
import os
import sys


def c_array(data):
    lines = []
    for i in range(0, len(data), 24):
        lines.append("    " + ",".join(str(b) for b in data[i:i + 24]) + ",")
    return "\n".join(lines)


def main():
    output, version, files = sys.argv[1], sys.argv[2], sys.argv[3:]
    arrays, rows = [], []
    for i, path in enumerate(files):
        with open(path, "rb") as f:
            data = f.read()
        name = os.path.basename(path)
        for end in (b"</script", b"</style"):
            if not name.endswith(".html") and end in data.lower():
                sys.exit(f"{path}: holds {end.decode()!r}, which would end its element")
        arrays.append(f"static const unsigned char asset_{i}[] = {{\n{c_array(data)}\n}};\n")
        rows.append(f'    {{"{name}", asset_{i}, {len(data)}}},\n')
    with open(output, "w", encoding="ascii") as f:
        f.write("/* SPDX-License-Identifier: Apache-2.0 */\n/* Made by tools/embed.py. */\n")
        f.write('#include "report/assets.h"\n\n')
        f.write("\n".join(arrays))
        f.write("\nconst orr_asset orr_assets[] = {\n" + "".join(rows) + "};\n")
        f.write(f"const size_t orr_n_assets = {len(rows)};\n")
        f.write(f'const char orr_assets_version[] = "{version}";\n')


if __name__ == "__main__":
    main()
