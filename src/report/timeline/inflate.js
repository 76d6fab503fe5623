"use strict";
/* SPDX-License-Identifier: Apache-2.0 */
/* RFC 1950/1951, for browsers without DecompressionStream: slower, same bytes. */

const LENGTH_BASE = [
  3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23, 27,
  31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258
];
const LENGTH_BITS =
    [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0];
const DISTANCE_BASE = [
  1,   2,   3,   4,   5,   7,    9,    13,   17,   25,   33,   49,   65,    97,    129,
  193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577
];
const DISTANCE_BITS = [
  0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13
];
const LENGTHS_ORDER = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

/* Canonical code of the given lengths: how many codes there are of each length, and their symbols
 * in order. */
function huffman(lengths) {
  const count = new Uint16Array(16), offset = new Uint16Array(16),
        symbols = new Uint16Array(lengths.length);
  for (const length of lengths) count[length]++;
  count[0] = 0;
  for (let i = 1; i < 15; i++) offset[i + 1] = offset[i] + count[i];
  for (let s = 0; s < lengths.length; s++)
    if (lengths[s]) symbols[offset[lengths[s]]++] = s;
  return {count, symbols};
}

function inflate(input) {
  let at = 2, bitBuffer = 0, bitCount = 0, out = new Uint8Array(input.length * 4 + 1024), n = 0;

  function bits(want) {
    while (bitCount < want) {
      bitBuffer |= input[at++] << bitCount;
      bitCount += 8;
    }
    const value = bitBuffer & ((1 << want) - 1);
    bitBuffer >>>= want;
    bitCount -= want;
    return value;
  }

  function symbol(code) {
    let value = 0, first = 0, index = 0;
    for (let length = 1; length < 16; length++) {
      value |= bits(1);
      const count = code.count[length];
      if (value - count < first) return code.symbols[index + (value - first)];
      index += count;
      first = (first + count) << 1;
      value <<= 1;
    }
    throw new Error("the page is damaged: bad code in its data");
  }

  function room(more) {
    if (n + more <= out.length) return;
    const larger = new Uint8Array(Math.max(out.length * 2, n + more));
    larger.set(out);
    out = larger;
  }

  function dynamicCodes() {
    const nLiterals = bits(5) + 257, nDistances = bits(5) + 1, nLengths = bits(4) + 4;
    const lengths = new Uint8Array(nLiterals + nDistances), small = new Uint8Array(19);
    for (let i = 0; i < nLengths; i++) small[LENGTHS_ORDER[i]] = bits(3);
    const code = huffman(small);
    for (let i = 0; i < lengths.length;) {
      const s = symbol(code);
      if (s < 16) {
        lengths[i++] = s;
        continue;
      }
      const value = s === 16 ? lengths[i - 1] : 0;
      for (let r = s === 16 ? 3 + bits(2) : s === 17 ? 3 + bits(3) : 11 + bits(7); r > 0; r--)
        lengths[i++] = value;
    }
    return [huffman(lengths.subarray(0, nLiterals)), huffman(lengths.subarray(nLiterals))];
  }

  function fixedCodes() {
    const lengths =
        new Uint8Array(288).fill(8, 0, 144).fill(9, 144, 256).fill(7, 256, 280).fill(8, 280);
    return [huffman(lengths), huffman(new Uint8Array(30).fill(5))];
  }

  function block(literals, distances) {
    for (;;) {
      const s = symbol(literals);
      if (s === 256) return;
      room(258);
      if (s < 256) {
        out[n++] = s;
        continue;
      }
      const length = LENGTH_BASE[s - 257] + bits(LENGTH_BITS[s - 257]);
      const d = symbol(distances), distance = DISTANCE_BASE[d] + bits(DISTANCE_BITS[d]);
      for (let i = 0; i < length; i++, n++) out[n] = out[n - distance];
    }
  }

  for (let last = 0; !last;) {
    last = bits(1);
    const type = bits(2);
    if (type === 0) {
      bitBuffer = bitCount = 0;
      const length = input[at] | input[at + 1] << 8;
      room(length);
      out.set(input.subarray(at + 4, at + 4 + length), n);
      at += 4 + length;
      n += length;
    } else {
      block(...(type === 1 ? fixedCodes() : dynamicCodes()));
    }
  }
  return out.subarray(0, n);
}
