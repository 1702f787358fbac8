// Node's Buffer, as far as texts and their encodings go, with TextEncoder, TextDecoder, btoa and atob.
const Buffer = (() => {
  const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
  const read = {
    utf8: text => [...unescape(encodeURIComponent(text.toWellFormed()))].map(char => char.charCodeAt(0)),
    latin1: text => text.split('').map(char => char.charCodeAt(0) & 255),
    hex: text => (/^(?:[0-9a-f]{2})*/i.exec(text)[0].match(/../g) ?? []).map(pair => parseInt(pair, 16)),
    base64: text => {
      const bytes = []; let bits = 0, held = 0;
      for (const char of text.split('=')[0].replace(/-/g, '+').replace(/_/g, '/').replace(/[^A-Za-z0-9+/]/g, '')) {
        held = (held << 6 | letters.indexOf(char)) & 0xffffff; bits += 6;
        if (bits >= 8) { bits -= 8; bytes.push(held >> bits & 255); }
      }
      return bytes;
    },
  };
  const binary = bytes => {
    let text = '';
    for (let at = 0; at < bytes.length; at += 8192) text += String.fromCharCode(...bytes.subarray(at, at + 8192));
    return text;
  };
  const utf8 = bytes => {
    let text = '', at = 0;
    while (at < bytes.length) {
      const first = bytes[at++];
      if (first < 128) { text += String.fromCharCode(first); continue; }
      const more = first >= 0xc2 && first < 0xe0 ? 1 : first >= 0xe0 && first < 0xf0 ? 2 : first >= 0xf0 && first < 0xf5 ? 3 : 0;
      let code = first & (more === 1 ? 31 : more === 2 ? 15 : 7), read = 0;
      while (read < more) {
        const low = read ? 0x80 : first === 0xe0 ? 0xa0 : first === 0xf0 ? 0x90 : 0x80, high = read ? 0xbf : first === 0xed ? 0x9f : first === 0xf4 ? 0x8f : 0xbf;
        if (at >= bytes.length || bytes[at] < low || bytes[at] > high) break;
        code = code << 6 | (bytes[at++] & 63); read++;
      }
      text += more && read === more ? String.fromCodePoint(code) : '\ufffd';
    }
    return text;
  };
  const write = {
    utf8,
    latin1: binary,
    hex: bytes => Array.from(bytes, byte => byte.toString(16).padStart(2, '0')).join(''),
    base64: bytes => {
      const parts = [];
      for (let at = 0; at < bytes.length; at += 3) {
        const part = (bytes[at] << 16) | ((bytes[at + 1] ?? 0) << 8) | (bytes[at + 2] ?? 0);
        parts.push(letters[part >> 18 & 63] + letters[part >> 12 & 63] + (at + 1 < bytes.length ? letters[part >> 6 & 63] : '=') + (at + 2 < bytes.length ? letters[part & 63] : '='));
      }
      return parts.join('');
    },
    base64url: bytes => write.base64(bytes).replace(/=+$/, '').replaceAll('+', '-').replaceAll('/', '_'),
    ascii: bytes => Array.from(bytes, byte => String.fromCharCode(byte & 127)).join(''),
  };
  const known = (name, table) => {
    const form = {'utf-8': 'utf8', binary: 'latin1'}[String(name ?? 'utf8').toLowerCase()] ?? String(name ?? 'utf8').toLowerCase();
    const found = table === read ? {ascii: 'latin1', base64url: 'base64'}[form] ?? form : form;
    if (!Object.hasOwn(table, found)) throw new TypeError(`Unknown encoding: ${name}`);
    return table[found];
  };
  return class Buffer extends Uint8Array {
    static from(value, form) {
      if (typeof value === 'string') return new Buffer(known(form, read)(value));
      if (value?.type === 'Buffer' && Array.isArray(value.data)) return new Buffer(value.data);
      if (value instanceof ArrayBuffer) return new Buffer(value);
      return new Buffer(Array.from(value));
    }
    static alloc(size) { return new Buffer(size); }
    static concat(list) {
      const made = new Buffer(list.reduce((sum, each) => sum + each.length, 0)); let at = 0;
      for (const each of list) { made.set(each, at); at += each.length; }
      return made;
    }
    static isBuffer(value) { return value instanceof Buffer; }
    static byteLength(text, form) { return typeof text === 'string' ? Buffer.from(text, form).length : text.byteLength; }
    toString(form, begin = 0, end = this.length) { return known(form, write)(begin || end < this.length ? this.subarray(begin, end) : this); }
    slice(begin, end) { return this.subarray(begin, end); }
    equals(other) { return this.length === other.length && this.every((byte, index) => byte === other[index]); }
    toJSON() { return {type: 'Buffer', data: Array.from(this)}; }
  };
})();
const btoa = text => Buffer.from(String(text), 'latin1').toString('base64');
const atob = text => Buffer.from(String(text), 'base64').toString('latin1');
class TextEncoder { encode(text = '') { return new Uint8Array(Buffer.from(String(text))); } }
class TextDecoder { decode(bytes) { return bytes === undefined ? '' : Buffer.from(bytes).toString(); } }
