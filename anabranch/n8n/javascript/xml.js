// XML read and written as n8n's node does it: objects whose attributes and texts have keys of their own.
const $xml = (() => {
  const entities = $entities;
  const begins = ':A-Z_a-z\\u00C0-\\u00D6\\u00D8-\\u00F6\\u00F8-\\u02FF\\u0370-\\u037D\\u037F-\\u1FFF\\u200C-\\u200D\\u2070-\\u218F\\u2C00-\\u2FEF\\u3001-\\uD7FF\\uF900-\\uFDCF\\uFDF0-\\uFFFD';
  const named = new RegExp(`[${begins}][${begins}\\u00B7\\u0300-\\u036F\\u203F-\\u2040.\\d\\-]*`, 'y');
  const put = (object, key, value) => Object.defineProperty(object, key, {value, writable: true, enumerable: true, configurable: true});
  const decoded = text => text.replace(/&([^;&\s]*;?)/g, (all, name) => {
    const inner = name.slice(0, -1);
    if (name.endsWith(';') && Object.hasOwn(entities, inner)) return entities[inner];
    const [, hex, decimal] = /^#(?:[xX]([0-9a-fA-F]+)|(\d+));$/.exec(name) ?? [], code = hex ? parseInt(hex, 16) : Number(decimal);
    if (!code || code > 0x10ffff) throw new Error('Invalid character entity');
    return String.fromCodePoint(code);
  });
  const safe = name => ['__proto__', 'constructor', 'prototype'].includes(name) ? `sanitized_${name}` : name;
  const parse = (source, given) => {
    const options = {attrkey: '$', charkey: '_', mergeAttrs: true, explicitArray: false, explicitRoot: true, ...given};
    const text = String(source).replace(/^\ufeff/, ''), stack = [];
    let at = 0, result;
    const add = (object, key, value) => {
      // n8n takes what every object inherits, such as toString, for a first value, which JSON writes as null.
      if (!(key in object)) put(object, key, options.explicitArray ? [value] : value);
      else { if (!Array.isArray(object[key])) put(object, key, [Object.hasOwn(object, key) ? object[key] : null]); object[key].push(value); }
    };
    const name = () => {
      named.lastIndex = at;
      const found = named.exec(text);
      if (!found) throw new Error('Unencoded <');
      at += found[0].length;
      return found[0];
    };
    const past = (mark, what) => {
      const end = text.indexOf(mark, at);
      if (end < 0) throw new Error(`${what} is not closed`);
      const inner = text.slice(at, end);
      at = end + mark.length;
      return inner;
    };
    const blank = () => { while (at < text.length && /\s/.test(text[at])) at++; };
    const close = () => {
      const {object, tag} = stack.pop(), words = object[options.charkey], cdata = object.cdata === true;
      if (cdata) delete object.cdata;
      if (typeof words !== 'string') throw new TypeError('an attribute has the name of the text');
      let made = object, empty;
      if (/^\s*$/.test(words) && !cdata) { empty = words; delete object[options.charkey]; } else {
        if (options.trim) object[options.charkey] = object[options.charkey].trim();
        if (options.normalize) object[options.charkey] = object[options.charkey].replace(/\s{2,}/g, ' ').trim();
        if (Object.keys(object).length === 1) made = object[options.charkey];
      }
      if (typeof made === 'object' && made !== null && Object.keys(made).length === 0) made = empty;
      if (stack.length) { add(stack[stack.length - 1].object, tag, made); return; }
      result = made;
      if (options.explicitRoot) put(result = {}, tag, made);
      at = text.length;
    };
    const open = () => {
      const written = name(), attributes = new Map();
      for (;;) {
        const before = at;
        blank();
        if (text.startsWith('/>', at) || text[at] === '>') break;
        if (before === at) throw new Error('Invalid character in tag name');
        const key = name();
        blank();
        if (text[at] !== '=') throw new Error('Attribute without value');
        at++;
        blank();
        const mark = text[at++];
        if (mark !== '"' && mark !== "'") throw new Error('Unquoted attribute value');
        const value = decoded(past(mark, 'an attribute'));
        if (!attributes.has(key)) attributes.set(key, value);
      }
      const object = {[options.charkey]: ''};
      if (!options.ignoreAttrs) for (const [key, value] of attributes) {
        if (options.mergeAttrs) add(object, safe(key), value);
        else { if (!Object.hasOwn(object, options.attrkey)) object[options.attrkey] = {}; put(object[options.attrkey], safe(key), value); }
      }
      stack.push({object, written, tag: safe(options.normalizeTags ? written.toLowerCase() : written)});
      const alone = text[at] === '/';
      at += alone ? 2 : 1;
      if (alone) close();
    };
    if (text.trim() === '') return null;
    while (at < text.length) {
      const next = text.indexOf('<', at), words = text.slice(at, next < 0 ? text.length : next);
      at += words.length;
      if (words && stack.length) stack[stack.length - 1].object[options.charkey] += decoded(words);
      else if (words.trim()) throw new Error('Non-whitespace before first tag.');
      if (next < 0) break;
      at++;
      if (text.startsWith('!--', at)) { at += 3; past('-->', 'a comment'); }
      else if (text.startsWith('![CDATA[', at)) {
        at += 8;
        const inner = past(']]>', 'CDATA'), top = stack[stack.length - 1];
        if (top && inner) { top.object[options.charkey] += inner; top.object.cdata = true; }
      } else if (text[at] === '!') { at++; doctype(); } else if (text[at] === '?') past('?>', 'an instruction');
      else if (text[at] === '/') {
        at++;
        const tag = name();
        blank();
        if (text[at++] !== '>') throw new Error('Invalid characters in closing tag');
        if (!stack.length || stack[stack.length - 1].written !== tag) throw new Error('Unexpected close tag');
        close();
      } else open();
    }
    function doctype() {
      let inside = false, mark = '';
      if (stack.length || !/^doctype\b/i.test(text.slice(at, at + 8))) throw new Error('Inappropriately located doctype declaration');
      for (; at < text.length; at++) {
        const char = text[at];
        if (mark) { if (char === mark) mark = ''; } else if (char === '"' || char === "'") mark = char;
        else if (char === '[') inside = true; else if (char === ']') inside = false; else if (char === '>' && !inside) { at++; return; }
      }
    }
    if (result === undefined && at >= text.length) throw new Error(stack.length ? 'Unclosed root tag' : 'there is no element');
    return result;
  };
  const build = (given, options = {}) => {
    const attrkey = options.attrkey ?? '$', charkey = options.charkey ?? '_', keys = Object.keys(given);
    const isRoot = keys.length === 1 && (options.rootName ?? 'root') === 'root';
    const root = {tag: isRoot ? keys[0] : options.rootName, inner: []}, wholly = new RegExp(`^${named.source}$`);
    if (root.tag === undefined) root.tag = 'root';
    const legal = value => {
      const found = /[\0-\x08\x0B\f\x0E-\x1F\uFFFE\uFFFF]|[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?:[^\uD800-\uDBFF]|^)[\uDC00-\uDFFF]/.exec(value);
      if (found) throw new Error('Invalid character in string');
      return value;
    };
    const texts = value => {
      const plain = String(value);
      if (options.cdata && typeof value === 'string' && /[&<>]/.test(plain)) return {raw: `<![CDATA[${plain.replaceAll(']]>', ']]]]><![CDATA[>')}]]>`};
      return {raw: legal(plain).replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/>/g, '&gt;').replace(/\r/g, '&#xD;')};
    };
    const element = (into, tag) => {
      if (!wholly.test(tag)) throw new Error(`Invalid character in name: ${tag}`);
      const made = {tag, inner: [], attributes: new Map()};
      into.inner.push(made);
      return made;
    };
    const fill = (into, value) => {
      if (typeof value !== 'object') { into.inner.push(texts(value)); return; }
      if (value === null) return;
      if (Array.isArray(value)) { for (const each of value) for (const [key, inner] of Object.entries(each ?? {})) fill(element(into, key), inner); return; }
      for (const [key, inner] of Object.entries(value)) {
        if (key === attrkey) {
          if (typeof inner === 'object') for (const [attribute, text] of Object.entries(inner ?? {})) {
            if (!wholly.test(attribute)) throw new Error(`Invalid character in name: ${attribute}`);
            if (text !== null) into.attributes.set(attribute, legal(String(text)).replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/"/g, '&quot;').replace(/\t/g, '&#x9;').replace(/\n/g, '&#xA;').replace(/\r/g, '&#xD;'));
          }
        } else if (key === charkey) {
          if (typeof inner === 'object') throw new Error(`the text of <${into.tag}> is no text`);
          into.inner.push(texts(inner));
        } else if (Array.isArray(inner)) for (const each of inner) fill(element(into, key), each);
        else if (typeof inner === 'object') fill(element(into, key), inner);
        else element(into, key).inner.push(texts(inner ?? ''));
      }
    };
    const top = {inner: []}, made = element(top, root.tag);
    fill(made, isRoot ? given[keys[0]] : given);
    const written = (node, depth) => {
      const indent = '  '.repeat(depth);
      if (node.raw !== undefined) return `${indent}${node.raw}\n`;
      const head = `${indent}<${node.tag}${[...node.attributes].map(([key, value]) => ` ${key}="${value}"`).join('')}`;
      if (!node.inner.length || node.inner.every(each => each.raw === '')) return `${head}/>\n`;
      if (node.inner.length === 1 && node.inner[0].raw !== undefined) return `${head}>${node.inner[0].raw}</${node.tag}>\n`;
      return `${head}>\n${node.inner.map(each => written(each, depth + 1)).join('')}${indent}</${node.tag}>\n`;
    };
    const head = options.headless ? '' : '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n';
    return head + written(made, 0).replace(/\n$/, '');
  };
  return {parse, build};
})();
