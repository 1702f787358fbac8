// Hashes and HMACs of Node's module crypto: MD5, SHA-1, SHA-256 and SHA-512.
const $crypto = (() => {
  const bytesOf = (value, form) => typeof value === 'string' ? Buffer.from(value, form) : Buffer.from(value);
  const padded = (bytes, block, little) => {
    const size = Math.ceil((bytes.length + 1 + block / 8) / block) * block, made = new Uint8Array(size), view = new DataView(made.buffer);
    made.set(bytes); made[bytes.length] = 0x80;
    const bits = BigInt(bytes.length) * 8n;
    view.setBigUint64(little ? size - 8 : size - 8, bits, little);
    return view;
  };
  const turn = (value, by) => (value << by) | (value >>> (32 - by));
  const primes = (() => { const found = []; for (let n = 2; found.length < 80; n++) if (found.every(prime => n % prime)) found.push(n); return found; })();
  const root = (number, power, bits) => {
    let low = 0n, high = 1n << (bits + 10n);
    const wanted = BigInt(number) << (bits * power);
    while (low < high) { const middle = (low + high + 1n) >> 1n; if (middle ** power <= wanted) low = middle; else high = middle - 1n; }
    return low & ((1n << bits) - 1n);
  };
  const words = (values, bytes, little) => {
    const made = new Buffer(values.length * bytes), view = new DataView(made.buffer);
    values.forEach((value, index) => { if (bytes === 8) view.setBigUint64(index * 8, value); else view.setUint32(index * 4, value >>> 0, little); });
    return made;
  };
  const md5 = bytes => {
    const shifts = [7, 12, 17, 22, 5, 9, 14, 20, 4, 11, 16, 23, 6, 10, 15, 21], view = padded(bytes, 64, true);
    const sines = Array.from({length: 64}, (_, index) => Math.floor(Math.abs(Math.sin(index + 1)) * 4294967296));
    let state = [0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476];
    for (let block = 0; block < view.byteLength; block += 64) {
      let [a, b, c, d] = state;
      for (let at = 0; at < 64; at++) {
        const way = at >> 4;
        const [mixed, from] = way === 0 ? [(b & c) | (~b & d), at] : way === 1 ? [(d & b) | (~d & c), (5 * at + 1) % 16]
          : way === 2 ? [b ^ c ^ d, (3 * at + 5) % 16] : [c ^ (b | ~d), (7 * at) % 16];
        const sum = (a + mixed + sines[at] + view.getUint32(block + from * 4, true)) | 0;
        [a, d, c, b] = [d, c, b, (b + turn(sum, shifts[way * 4 + at % 4])) | 0];
      }
      state = [a, b, c, d].map((value, index) => (value + state[index]) | 0);
    }
    return words(state, 4, true);
  };
  const sha1 = bytes => {
    const view = padded(bytes, 64), row = new Int32Array(80);
    let state = [0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0];
    for (let block = 0; block < view.byteLength; block += 64) {
      for (let at = 0; at < 80; at++) row[at] = at < 16 ? view.getInt32(block + at * 4) : turn(row[at - 3] ^ row[at - 8] ^ row[at - 14] ^ row[at - 16], 1);
      let [a, b, c, d, e] = state;
      for (let at = 0; at < 80; at++) {
        const [mixed, more] = at < 20 ? [(b & c) | (~b & d), 0x5a827999] : at < 40 ? [b ^ c ^ d, 0x6ed9eba1] : at < 60 ? [(b & c) | (b & d) | (c & d), 0x8f1bbcdc] : [b ^ c ^ d, 0xca62c1d6];
        [e, d, c, b, a] = [d, c, turn(b, 30), a, (turn(a, 5) + mixed + e + more + row[at]) | 0];
      }
      state = [a, b, c, d, e].map((value, index) => (value + state[index]) | 0);
    }
    return words(state, 4);
  };
  const sha256 = bytes => {
    const view = padded(bytes, 64), row = new Int32Array(64), keys = primes.slice(0, 64).map(prime => Number(root(prime, 3n, 32n)));
    const right = (value, by) => (value >>> by) | (value << (32 - by));
    let state = primes.slice(0, 8).map(prime => Number(root(prime, 2n, 32n)) | 0);
    for (let block = 0; block < view.byteLength; block += 64) {
      for (let at = 0; at < 64; at++) {
        if (at < 16) { row[at] = view.getInt32(block + at * 4); continue; }
        const one = row[at - 15], two = row[at - 2];
        row[at] = (row[at - 16] + (right(one, 7) ^ right(one, 18) ^ (one >>> 3)) + row[at - 7] + (right(two, 17) ^ right(two, 19) ^ (two >>> 10))) | 0;
      }
      let [a, b, c, d, e, f, g, h] = state;
      for (let at = 0; at < 64; at++) {
        const one = (h + (right(e, 6) ^ right(e, 11) ^ right(e, 25)) + ((e & f) ^ (~e & g)) + keys[at] + row[at]) | 0;
        const two = ((right(a, 2) ^ right(a, 13) ^ right(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
        [h, g, f, e, d, c, b, a] = [g, f, e, (d + one) | 0, c, b, a, (one + two) | 0];
      }
      state = [a, b, c, d, e, f, g, h].map((value, index) => (value + state[index]) | 0);
    }
    return words(state, 4);
  };
  const sha512 = bytes => {
    const view = padded(bytes, 128), row = [], keys = primes.map(prime => root(prime, 3n, 64n)), cut = value => BigInt.asUintN(64, value);
    const right = (value, by) => cut((value >> by) | (value << (64n - by)));
    let state = primes.slice(0, 8).map(prime => root(prime, 2n, 64n));
    for (let block = 0; block < view.byteLength; block += 128) {
      for (let at = 0; at < 80; at++) {
        if (at < 16) { row[at] = view.getBigUint64(block + at * 8); continue; }
        const one = row[at - 15], two = row[at - 2];
        row[at] = cut(row[at - 16] + (right(one, 1n) ^ right(one, 8n) ^ (one >> 7n)) + row[at - 7] + (right(two, 19n) ^ right(two, 61n) ^ (two >> 6n)));
      }
      let [a, b, c, d, e, f, g, h] = state;
      for (let at = 0; at < 80; at++) {
        const one = cut(h + (right(e, 14n) ^ right(e, 18n) ^ right(e, 41n)) + ((e & f) ^ (cut(~e) & g)) + keys[at] + row[at]);
        const two = cut((right(a, 28n) ^ right(a, 34n) ^ right(a, 39n)) + ((a & b) ^ (a & c) ^ (b & c)));
        [h, g, f, e, d, c, b, a] = [g, f, e, cut(d + one), c, b, a, cut(one + two)];
      }
      state = [a, b, c, d, e, f, g, h].map((value, index) => cut(value + state[index]));
    }
    return words(state, 8);
  };
  const hashes = {md5: [md5, 64], sha1: [sha1, 64], sha256: [sha256, 64], sha512: [sha512, 128]};
  const chosen = name => {
    const found = hashes[String(name).toLowerCase().replace('-', '')];
    if (!found) throw new Error('Digest method not supported');
    return found;
  };
  const collecting = finish => {
    const parts = [];
    const made = {update: (value, form) => { parts.push(bytesOf(value, form)); return made; }, digest: form => {
      const bytes = finish(Buffer.concat(parts));
      return form === undefined || form === 'buffer' ? bytes : bytes.toString(form);
    }};
    return made;
  };
  const createHash = name => { const [hash] = chosen(name); return collecting(hash); };
  const createHmac = (name, secret) => {
    const [hash, block] = chosen(name), given = bytesOf(secret), key = new Uint8Array(block);
    key.set(given.length > block ? hash(given) : given);
    return collecting(bytes => hash(Buffer.concat([key.map(byte => byte ^ 0x5c), hash(Buffer.concat([key.map(byte => byte ^ 0x36), bytes]))])));
  };
  return {createHash, createHmac};
})();
