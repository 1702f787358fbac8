// What n8n's own functions make of values of any type, which may be missing.
const $n8n = (() => {
  const units = /Lek|؋|\$|ƒ|₼|Br|KM|P|лв|៛|¥|₡|kn|₱|Kč|kr|£|€|¢|Q|L|Ft|₹|Rp|﷼|₪|₩|₭|ден|RM|₨|₮|MT|₦|B\/\.|Gs|S\/\.|zł|lei|₽|Дин\.|S|R|CHF|฿|₴|Bs|₫/gu;
  const isDate = value => /\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}.\d{3}Z/.test(value) && !Number.isNaN(Date.parse(value)) && new Date(value).toISOString() === value;
  const isEmpty = value => {
    if (Array.isArray(value)) return value.length === 0;
    if (value && typeof value === 'object') return !(value instanceof Date || typeof value.toISO === 'function') && Object.keys(value).length === 0;
    return !value;
  };
  const toNumber = value => {
    const number = typeof value === 'boolean' ? Number(value) : typeof value === 'string' && !isDate(value) ? Number(value.replace(units, '')) : NaN;
    if (Number.isNaN(number)) throw Object.assign(new Error('toNumber() needs a text that is a number'), {fails: true});
    return number;
  };
  return {isEmpty, isNotEmpty: value => !isEmpty(value), toNumber};
})();
