#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files -> one C source that holds their bytes.

    embed.py OUTPUT.c VERSION FILE...         for src/report/page/assets.h
    embed.py --catalog OUTPUT.c ROOT FILE...  for src/machine/catalog/embedded_files.h, names from ROOT
    embed.py --models OUTPUT.c ROOT FILE...   likewise, for src/model/spec/spec.h
    embed.py --calibrations OUTPUT.c ROOT FILE...  likewise, for src/cost/calibration/calibration.h
    embed.py --failures OUTPUT.c ROOT FILE...  likewise, for src/fleet/fleet.h
    embed.py --images OUTPUT.c FILE...        device code, for src/kernel/cuda/driver.h

Of the page, a script that holds "</script" would end the
element that it is put in, and a style sheet "</style": both are refused.
"""
import os
import sys


def c_array(data):
    lines = []
    for i in range(0, len(data), 24):
        lines.append("    " + ",".join(str(b) for b in data[i:i + 24]) + ",")
    return "\n".join(lines)


def write_catalog(output, root, files, header="machine/catalog/embedded_files.h", symbol="catalog_files"):
    """Names are "devices/nvidia.yaml": what messages call the file."""
    with open(output, "w", encoding="ascii") as out:
        out.write("/* SPDX-License-Identifier: Apache-2.0 */\n/* Made by tools/embed.py. */\n")
        out.write(f'#include "{header}"\n\n')
        rows = []
        for i, path in enumerate(sorted(files)):
            with open(path, "rb") as f:
                data = f.read()
            out.write(f"static const unsigned char file_{i}[] = {{\n{c_array(data)}\n}};\n")
            rows.append(f'    {{"{os.path.relpath(path, root)}", file_{i}, {len(data)}}},\n')
        out.write(f"\nconst orr_catalog_file orr_{symbol}[] = {{\n" + "".join(rows) + "};\n")
        out.write(f"const size_t orr_n_{symbol} = {len(rows)};\n")


def write_images(output, files):
    with open(output, "w", encoding="ascii") as out:
        out.write("/* SPDX-License-Identifier: Apache-2.0 */\n/* Made by tools/embed.py. */\n")
        out.write('#include "kernel/cuda/driver.h"\n\n')
        rows = []
        for i, path in enumerate(files):
            with open(path, "rb") as f:
                data = f.read()
            out.write(f"static const unsigned char image_{i}[] __attribute__((aligned(64))) = {{\n{c_array(data)}\n}};\n")
            rows.append(f'    {{"{os.path.basename(path)}", image_{i}, {len(data)}}},\n')
        out.write("\nconst orr_cuda_image orr_cuda_images[] = {\n" + "".join(rows) + "};\n")
        out.write(f"const size_t orr_n_cuda_images = {len(rows)};\n")


def main():
    if sys.argv[1] == "--images":
        write_images(sys.argv[2], sys.argv[3:])
        return
    if sys.argv[1] == "--catalog":
        write_catalog(sys.argv[2], sys.argv[3], sys.argv[4:])
        return
    if sys.argv[1] == "--models":
        write_catalog(*sys.argv[2:4], sys.argv[4:], "model/spec/spec.h", "model_files")
        return
    if sys.argv[1] == "--calibrations":
        write_catalog(*sys.argv[2:4], sys.argv[4:], "cost/calibration/calibration.h", "calibration_files")
        return
    if sys.argv[1] == "--failures":
        write_catalog(*sys.argv[2:4], sys.argv[4:], "fleet/fleet.h", "failure_files")
        return
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
        f.write('#include "report/page/assets.h"\n\n')
        f.write("\n".join(arrays))
        f.write("\nconst orr_asset orr_assets[] = {\n" + "".join(rows) + "};\n")
        f.write(f"const size_t orr_n_assets = {len(rows)};\n")
        f.write(f'const char orr_assets_version[] = "{version}";\n')


if __name__ == "__main__":
    main()
