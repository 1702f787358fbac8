// What n8n's expressions can call on texts, numbers and lists beside what JavaScript has.
const $extend = (prototype, methods) => {
  for (const [name, method] of Object.entries(methods))
    if (!(name in prototype)) Object.defineProperty(prototype, name, {value: function (...given) { return method(this.valueOf(), ...given); }, configurable: true});
};
const $number = (text, read) => { if (Number.isNaN(read)) throw new Error(`cannot convert ${text} to a number`); return read; };
const $same = (one, other) => one === other || (Number.isNaN(one) && Number.isNaN(other)) || (typeof one === 'object' && typeof other === 'object' && one !== null && other !== null
  && Array.isArray(one) === Array.isArray(other) && Object.keys(one).length === Object.keys(other).length
  && Object.keys(one).every(key => Object.hasOwn(other, key) && $same(one[key], other[key])));
const $once = list => list.reduce((kept, each) => { if (!kept.some(known => $same(known, each))) kept.push(each); return kept; }, []);
const $listed = value => { if (!Array.isArray(value)) throw new Error('it needs a list'); return value; };
const $counted = list => { if (list.some(each => typeof each !== 'number')) throw new Error('all elements must be numbers'); return list; };
const $unmarked = [
  [/^([\s\t]*)(?:[*+\-]|\d\.)\s+/gm, '$1'], [/\n={2,}/g, '\n'], [/~~/g, ''], [/`{3}.*\n/g, ''], [/<[\w\s|='":(),;\/.\-]+[>|\\]/g, ''], [/^[=\-]{2,}\s*$/g, ''],
  [/\[\^.+?\](?:: .*?$)?/g, ''], [/\s{0,2}\[.*?\]: .*?$/g, ''], [/!\[.*?\][\[(].*?[\])]/g, ''], [/\[(.*?)\][\[(].*?[\])]/g, '$1'], [/>/g, ''],
  [/^\s{1,2}\[.*?\]: \S+(?: ".*?")?\s*$/g, ''], [/^#{1,6}\s*([^#]*)\s*(?:#{1,6})?/gm, '$1'], [/([*_]{1,3})(\S.*?\S)\1/g, '$2'], [/(`{3,})(.*?)\1/gm, '$2'],
  [/^-{3,}\s*$/g, ''], [/`(.+?)`/g, '$1'], [/\n{2,}/g, '\n\n'],
];
$extend(String.prototype, {
  removeMarkdown: text => $unmarked.reduce((rest, [mark, by]) => rest.replace(mark, by), text),
  isNumeric: text => !text.includes(' ') && !Number.isNaN(Number(text)) && !Number.isNaN(parseFloat(text)),
  isEmpty: text => text === '', isNotEmpty: text => text !== '',
  toSentenceCase: text => {
    let made = '', begins = true;
    for (const char of text.toLowerCase()) {
      made += begins && /\p{L}/u.test(char) ? char.toUpperCase() : char;
      begins = /[!?.]/.test(char) || (begins && !/\p{L}/u.test(char));
    }
    return made;
  },
  toSnakeCase: text => text.toLowerCase().replace(/[ \-]/g, '_').replace(/[\u2000-\u206F\u2E00-\u2E7F\\'!"#$%&()*+,.\/:;<=>?@\[\]^`{|}~]/g, ''),
  removeTags: text => text.replace(/<[^>]*>?/g, ''),
  urlEncode: (text, whole) => whole ? encodeURI(text) : encodeURIComponent(text), urlDecode: (text, whole) => whole ? decodeURI(text) : decodeURIComponent(text),
  base64Encode: text => Buffer.from(text).toString('base64'), base64Decode: text => Buffer.from(text, 'base64').toString(),
  quote: (text, mark = '"') => mark + text.replaceAll('\\', '\\\\').replaceAll(mark, `\\${mark}`) + mark,
  toBoolean: text => text !== '' && !['false', 'no', '0'].includes(text.toLowerCase()),
  toNumber: text => $number(text, Number(text)), toInt: (text, base) => $number(text, parseInt(text, base)),
  toFloat: text => $number(text, text.includes(',') ? NaN : parseFloat(text)),
  parseJson: text => { try { return JSON.parse(text); } catch { throw Object.assign(new Error('the text is not JSON'), {fails: true}); } }, toJsonString: text => JSON.stringify(text),
});
$extend(Number.prototype, {
  round: (value, digits = 0) => +value.toFixed(digits), floor: value => Math.floor(value), ceil: value => Math.ceil(value), abs: value => Math.abs(value),
  isInteger: value => Number.isInteger(value), isEven: value => { if (!Number.isInteger(value)) throw new Error('isEven() is only callable on integers'); return value % 2 === 0; },
  isOdd: value => { if (!Number.isInteger(value)) throw new Error('isOdd() is only callable on integers'); return Math.abs(value) % 2 === 1; },
  toBoolean: value => value !== 0, toNumber: value => value, toInt: value => Math.trunc(value), toFloat: value => value,
  isEmpty: value => !value, isNotEmpty: value => Boolean(value), toJsonString: value => JSON.stringify(value),
});
$extend(Boolean.prototype, {toNumber: value => Number(value), toInt: value => Number(value), isEmpty: value => !value, isNotEmpty: value => Boolean(value), toJsonString: value => JSON.stringify(value)});
$extend(Array.prototype, {
  first: list => list[0], last: list => list[list.length - 1], isEmpty: list => list.length === 0, isNotEmpty: list => list.length > 0,
  sum: list => list.reduce((sum, each) => { if (typeof each !== 'number') throw new Error('sum() needs numbers'); return sum + each; }, 0),
  compact: list => list.filter(each => each !== null && each !== undefined && each !== '' && each !== 'nil' && !(typeof each === 'object' && !Object.keys(each).length)),
  chunk: (list, size) => { if (typeof size !== 'number' || size < 1) throw new Error('chunk() needs a size'); const made = []; for (let at = 0; at < list.length; at += size) made.push(list.slice(at, at + size)); return made; },
  pluck: (list, ...names) => names.length === 0 ? list : list.reduce((made, each) => {
    if (each && typeof each === 'object') {
      const found = Object.keys(each).flatMap(key => names.filter(name => name === key).map(() => each[key]));
      if (found.length) made.push(found.length === 1 ? found[0] : found);
    }
    return made;
  }, []),
  unique: (list, ...names) => names.length === 0 ? $once(list) : list.reduce((kept, each) => {
    const seen = item => item && typeof item === 'object' ? names.map(name => item[name]) : item;
    if (!kept.some(known => $same(seen(known), seen(each)))) kept.push(each);
    return kept;
  }, []),
  union: (list, other) => $once([...list, ...$listed(other)]), difference: (list, other) => $once(list.filter(each => !$listed(other).some(known => $same(known, each)))),
  intersection: (list, other) => $once(list.filter(each => $listed(other).some(known => $same(known, each)))),
  average: list => list.length === 0 ? 0 : $counted(list).reduce((sum, each) => sum + each, 0) / list.length,
  max: list => Math.max(...$counted(list)), min: list => Math.min(...$counted(list)),
  append: (list, ...more) => list.concat(more), toJsonString: list => JSON.stringify(list),
});
