#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files -> one C source that holds their bytes.

    embed.py OUTPUT.c VERSION FILE...         for src/report/page/assets.h
    embed.py --catalog OUTPUT.c ROOT FILE...  for src/machine/catalog/embedded_files.h, names from ROOT
    embed.py --models OUTPUT.c ROOT FILE...   likewise, for src/model/spec/spec.h
    embed.py --calibrations OUTPUT.c ROOT FILE...  likewise, for src/cost/calibration/calibration.h
    embed.py --failures OUTPUT.c ROOT FILE...  likewise, for src/fleet/fleet.h
    embed.py --published OUTPUT.c ROOT FILE...  likewise, for src/explore/decision/published.h
    embed.py --images OUTPUT.c FILE...        device code, for src/kernel/cuda/driver.h

Of the pages, a script that holds "</script" would end the
element that it is put in, and a style sheet "</style": both are refused.
"""
import base64
import hashlib
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


def write_page_assets(output, version, files):
    """Files as they are, but for scripts: those of page/ joined are page.js, all of them trace.js."""
    assets, scripts = [], {"page.js": b"", "trace.js": b""}
    for path in files:
        name = os.path.basename(path)
        with open(path, "rb") as f:
            data = f.read()
        for end in (b"</script", b"</style"):
            if not name.endswith(".html") and end in data.lower():
                sys.exit(f"{path}: holds {end.decode()!r}, which would end its element")
        if not name.endswith(".js"):
            assets.append((name, data, "NULL"))
            continue
        for script in scripts:
            if script == "trace.js" or os.path.basename(os.path.dirname(path)) == "page":
                scripts[script] += data
    for name, data in scripts.items():
        data = b"\n(function () {\n" + data + b"})();\n"
        digest = base64.b64encode(hashlib.sha256(data).digest()).decode()
        assets.append((name, data, f'"{digest}"'))
    with open(output, "w", encoding="ascii") as f:
        f.write("/* SPDX-License-Identifier: Apache-2.0 */\n/* Made by tools/embed.py. */\n")
        f.write('#include "report/page/assets.h"\n\n')
        for i, (_, data, _) in enumerate(assets):
            f.write(f"static const unsigned char asset_{i}[] = {{\n{c_array(data)}\n}};\n")
        f.write("\nconst orr_asset orr_assets[] = {\n")
        for i, (name, data, digest) in enumerate(assets):
            f.write(f'    {{"{name}", asset_{i}, {len(data)}, {digest}}},\n')
        f.write(f"}};\nconst size_t orr_n_assets = {len(assets)};\n")
        f.write(f'const char orr_assets_version[] = "{version}";\n')


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
    if sys.argv[1] == "--published":
        write_catalog(*sys.argv[2:4], sys.argv[4:], "explore/decision/published.h", "published_files")
        return
    write_page_assets(sys.argv[1], sys.argv[2], sys.argv[3:])


if __name__ == "__main__":
    main()
