// SPDX-License-Identifier: Apache-2.0
// Counts tokens: reads a JSON array of strings from a file and prints an array of numbers.
import { readFileSync } from "node:fs";
import { countTokens } from "gpt-tokenizer/encoding/o200k_base";

const texts = JSON.parse(readFileSync(process.argv[2], "utf8"));
console.log(JSON.stringify(texts.map((text) => countTokens(text, { disallowedSpecial: new Set() }))));
