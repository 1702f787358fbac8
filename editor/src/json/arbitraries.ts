/** Made-up JSON texts for property tests: odd numbers, doubled and integer-like names, any whitespace. */

import fc from "fast-check";

export const spaces = fc.stringMatching(/^[ \n\t\r]{0,3}$/);

const numbers = fc.oneof(
  fc.constantFrom("9223372036854775807", "-9223372036854775808", "18446744073709551616", "1.0", "1e400", "-0", "0.10", "1E+2"),
  fc.bigInt().map(String),
  fc.double({ noNaN: true, noDefaultInfinity: true }).map((number) => JSON.stringify(number)),
);

const strings = fc.oneof(
  fc.string({ unit: "binary" }).map((text) => JSON.stringify(text)),
  fc.constantFrom('"\\u0041\\/"', '"\\ud800"', '"{{ctx.a}}"', '"]},"'),
);

const names = fc.oneof(fc.constantFrom('"1"', '"0"', '"10"', '"a"', '"a"', '"__proto__"', '"\\u0061"'), strings);

/** The text of any JSON value. */
export const jsonTexts: fc.Arbitrary<string> = fc.letrec<{ value: string }>((tie) => ({
  value: fc.oneof(
    { depthSize: "small", withCrossShrink: true },
    fc.oneof(numbers, strings, fc.constantFrom("true", "false", "null")),
    list(tie("value")),
    objectTexts(tie("value")),
  ),
})).value;

function list(value: fc.Arbitrary<string>): fc.Arbitrary<string> {
  return fc.tuple(fc.array(fc.tuple(spaces, value, spaces), { maxLength: 4 }), spaces).map(([items, empty]) => {
    return items.length === 0 ? `[${empty}]` : `[${items.map((item) => item.join("")).join(",")}]`;
  });
}

/** The text of any JSON object with such values. */
export function objectTexts(value: fc.Arbitrary<string> = jsonTexts): fc.Arbitrary<string> {
  const member = fc.tuple(spaces, names, spaces, spaces, value, spaces);
  return fc.tuple(fc.array(member, { maxLength: 4 }), spaces).map(([members, empty]) => {
    const inside = members.map(([a, name, b, c, text, d]) => `${a}${name}${b}:${c}${text}${d}`).join(",");
    return members.length === 0 ? `{${empty}}` : `{${inside}}`;
  });
}
