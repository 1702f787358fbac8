// What n8n says of files, its binary data: type, name, size, and which answers are files.
const $files = (() => {
  const kinds = ['image/', 'audio/', 'video/', 'application/octet-stream', 'application/gzip', 'application/zip', 'application/vnd.rar', 'application/epub+zip',
    'application/x-bzip', 'application/x-cdf', 'application/vnd.amazon.ebook', 'application/msword', 'application/vnd.openxmlformats-officedocument.wordprocessingml.document',
    'application/vnd.ms-fontobject', 'application/vnd.oasis.opendocument.presentation', 'application/pdf', 'application/x-tar', 'application/vnd.visio',
    'application/vnd.ms-excel', 'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet', 'application/x-7z-compressed'];
  const office = 'application/vnd.openxmlformats-officedocument.';
  const open = 'application/vnd.oasis.opendocument.';
  // The suffixes of each type; the first is the one that a file of the type gets.
  const suffixes = {
    'application/atom+xml': ['atom'], 'application/epub+zip': ['epub'], 'application/gzip': ['gz'], 'application/java-archive': ['jar', 'war', 'ear'],
    'application/json': ['json', 'map'], 'application/ld+json': ['jsonld'], 'application/msword': ['doc', 'dot'],
    'application/octet-stream': ['bin', 'dms', 'lrf', 'mar', 'so', 'dist', 'distz', 'pkg', 'bpk', 'dump', 'elc', 'deploy', 'exe', 'dll', 'deb', 'dmg', 'iso', 'img', 'msi', 'msp', 'msm', 'buffer'],
    'application/ogg': ['ogx'], 'application/pdf': ['pdf'], 'application/pgp-signature': ['sig'], 'application/postscript': ['ai', 'eps', 'ps'], 'application/rss+xml': ['rss'],
    'application/rtf': ['rtf'], 'application/sql': ['sql'], 'application/vnd.android.package-archive': ['apk'], 'application/vnd.apple.mpegurl': ['m3u8'],
    'application/vnd.google-earth.kml+xml': ['kml'], 'application/vnd.google-earth.kmz': ['kmz'],
    'application/vnd.ms-excel': ['xls', 'xlm', 'xla', 'xlc', 'xlt', 'xlw'], 'application/vnd.ms-fontobject': ['eot'], 'application/vnd.ms-outlook': ['msg'],
    'application/vnd.ms-powerpoint': ['ppt', 'pps', 'pot'], [`${open}presentation`]: ['odp'], [`${open}spreadsheet`]: ['ods'], [`${open}text`]: ['odt'],
    [`${office}presentationml.presentation`]: ['pptx'], [`${office}spreadsheetml.sheet`]: ['xlsx'], [`${office}wordprocessingml.document`]: ['docx'],
    'application/vnd.rar': ['rar'], 'application/vnd.visio': ['vsd', 'vst', 'vss', 'vsw', 'vsdx', 'vtx'], 'application/wasm': ['wasm'], 'application/x-7z-compressed': ['7z'],
    'application/x-bzip': ['bz'], 'application/x-bzip2': ['bz2', 'boz'], 'application/x-sh': ['sh'], 'application/x-tar': ['tar'], 'application/xhtml+xml': ['xhtml', 'xht'],
    'application/xml': ['xml', 'xsl', 'xsd', 'rng'], 'application/zip': ['zip'], 'audio/aac': ['adts', 'aac'], 'audio/amr': ['amr'], 'audio/midi': ['mid', 'midi', 'kar', 'rmi'],
    'audio/mp4': ['m4a', 'mp4a', 'm4b'], 'audio/mpeg': ['mpga', 'mp2', 'mp2a', 'mp3', 'm2a', 'm3a'], 'audio/ogg': ['oga', 'ogg', 'spx', 'opus'], 'audio/wav': ['wav'],
    'audio/webm': ['weba'], 'audio/x-aiff': ['aif', 'aiff', 'aifc'], 'audio/x-flac': ['flac'], 'audio/x-m4a': ['m4a'], 'audio/x-wav': ['wav'], 'font/otf': ['otf'], 'font/ttf': ['ttf'],
    'font/woff': ['woff'], 'font/woff2': ['woff2'], 'image/avif': ['avif'], 'image/bmp': ['bmp', 'dib'], 'image/gif': ['gif'], 'image/heic': ['heic'], 'image/heif': ['heif'],
    'image/jpeg': ['jpg', 'jpeg', 'jpe'], 'image/png': ['png'], 'image/svg+xml': ['svg', 'svgz'], 'image/tiff': ['tif', 'tiff'],
    'image/vnd.adobe.photoshop': ['psd'], 'image/vnd.microsoft.icon': ['ico'], 'image/webp': ['webp'], 'image/x-icon': ['ico'], 'message/rfc822': ['eml', 'mime', 'mht', 'mhtml'],
    'text/calendar': ['ics', 'ifb'], 'text/css': ['css'], 'text/csv': ['csv'], 'text/html': ['html', 'htm', 'shtml'], 'text/javascript': ['js', 'mjs'], 'text/markdown': ['md', 'markdown'],
    'text/plain': ['txt', 'text', 'conf', 'def', 'list', 'log', 'in', 'ini'], 'text/rtf': ['rtf'], 'text/tab-separated-values': ['tsv'], 'text/vcard': ['vcard'], 'text/vtt': ['vtt'],
    'text/x-vcard': ['vcf'], 'text/xml': ['xml'], 'text/yaml': ['yaml', 'yml'], 'video/3gpp': ['3gp', '3gpp'], 'video/mp4': ['mp4', 'mp4v', 'mpg4'], 'video/mpeg': ['mpeg', 'mpg', 'mpe', 'm1v', 'm2v'],
    'video/ogg': ['ogv'], 'video/quicktime': ['qt', 'mov'], 'video/webm': ['webm'], 'video/x-flv': ['flv'], 'video/x-m4v': ['m4v'], 'video/x-matroska': ['mkv', 'mk3d', 'mks'],
    'video/x-ms-wmv': ['wmv'], 'video/x-msvideo': ['avi'],
  };
  const types = {};
  for (const [type, each] of Object.entries(suffixes)) for (const suffix of each) types[suffix] ??= type;
  Object.assign(types, {mp3: 'audio/mpeg', wav: 'audio/wav', m4a: 'audio/mp4', ico: 'image/vnd.microsoft.icon', asc: 'application/pgp-keys',
    exe: 'application/x-msdos-program', dll: 'application/x-msdownload', msi: 'application/x-msdownload', deb: 'application/x-debian-package', dmg: 'application/x-apple-diskimage',
    iso: 'application/x-iso9660-image'});
  const size = count => {
    if (count < 1000) return `${count} B`;
    const step = Math.min(Math.floor(Math.log10(count) / 3), 3);
    return `${Number((count / 1000 ** step).toPrecision(3))} ${['B', 'kB', 'MB', 'GB'][step]}`;
  };
  const family = type => [['application/json', 'json'], ['text/html', 'html'], ['image/', 'image'], ['audio/', 'audio'], ['video/', 'video'], ['text/', 'text'],
    ['application/javascript', 'text'], ['application/pdf', 'pdf']].find(([start]) => type.startsWith(start))?.[1];
  const parts = path => {
    const all = path.replace(/\/+$/, ''), cut = all.lastIndexOf('/'), base = all.slice(cut + 1), dot = base.lastIndexOf('.');
    return {base, folder: cut < 0 ? '' : all.slice(0, cut) || '/', suffix: dot > 0 ? base.slice(dot + 1) : ''};
  };
  const typed = path => types[/(?:^|[.\/])([^.\/]*)$/.exec(path.toLowerCase())?.[1]];
  const decoded = text => { try { return decodeURIComponent(text); } catch { return text; } };
  // The name in a header Content-Disposition, as n8n reads it.
  const disposed = header => {
    if (!header) return undefined;
    const all = /^(?:attachment|inline)/.test(header) ? header : `attachment; ${header}`, found = {};
    for (const each of all.split(';').slice(1)) {
      const [key, value] = each.split('='), text = decoded(value).trim();
      found[key.toLowerCase().trim()] = text.startsWith('"') && text.endsWith('"') ? text.slice(1, -1) : text;
    }
    return found['filename*'] ? found['filename*'].split("'")[2] : found.filename;
  };
  const whole = (data, type, names) => {
    const bytes = data.length / 4 * 3 - (data.endsWith('==') ? 2 : data.endsWith('=') ? 1 : 0);
    const kind = family(type), suffix = names.suffix || suffixes[type]?.[0];
    return {mimeType: type, ...(kind && {fileType: kind}), ...(suffix && {fileExtension: suffix}), data,
      ...(names.folder && {directory: names.folder}), ...(names.base && {fileName: names.base}), fileSize: size(bytes)};
  };
  // A file that code makes of bytes; without a name or a type n8n looks into the bytes.
  const made = (data, path, type) => {
    const mime = type || (path && typed(path));
    if (!mime) throw new Error(`the type of the file ${path ?? ''} is not known here`);
    return whole(Buffer.from(data).toString('base64'), mime, path ? parts(path) : {});
  };
  // A file that a request was answered with; `name`: of a file that has none, if it gets one.
  const of = (answer, name) => {
    const {body, headers, url} = answer, header = String(headers['content-type'] ?? '');
    const data = typeof body?.base64 === 'string' ? body.base64 : Buffer.from(typeof body === 'string' ? body : '').toString('base64');
    const address = String(url ?? '').replace(/^(https?:\/\/)[^\/?#]*@/i, '$1').replace(/#.*$/, '');
    const path = disposed(headers['content-disposition']) ?? (/^https?:\/\/[^\/?#]*\/([^?#]*)/i.exec(address)?.[1] ?? '');
    const type = header.split(' ')[0].split(';')[0] || (path && typed(path)) || 'text/plain';
    const names = path ? {...parts(path), folder: address} : {};
    const file = whole(data, type, names);
    if (name && !file.fileName && file.fileExtension) {
      const {fileSize, ...rest} = file;
      return {...rest, fileSize, fileName: address.endsWith(file.fileExtension) ? address.split('/').pop() : `${name}.${file.fileExtension}`};
    }
    return file;
  };
  // A file that came with a webhook.
  const sent = (data, name, type) => whole(data, type, {base: name});
  return {is: headers => kinds.some(kind => String(headers['content-type'] ?? '').includes(kind)), of, made, sent, disposed};
})();
