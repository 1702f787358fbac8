// How n8n compares values and orders items.
const $order = (() => {
  const isObject = value => value !== null && typeof value === 'object';
  const equal = (one, other) => one === other || (isObject(one) && isObject(other) && Array.isArray(one) === Array.isArray(other)
    && Object.keys(one).length === Object.keys(other).length && Object.keys(one).every(key => Object.hasOwn(other, key) && equal(one[key], other[key])));
  const number = value => isObject(value) ? number(`${value}`) : typeof value === 'string' && /^\s*[-+]0x/i.test(value) ? NaN : Number(value);
  const isLess = (one, other) => typeof one === 'string' && typeof other === 'string' ? one < other : number(one) < number(other);
  // A merge sort that compares the same pairs in the same order as that of n8n's JavaScript: values that have no order, such as a
  // text and a number, stand in the same places behind it.
  const ordered = (list, compare) => {
    const work = [...list], runs = [];
    let least = 7;
    const move = (from, at, into, to, count) => { const moved = from.slice(at, at + count); for (let index = 0; index < count; index++) into[to + index] = moved[index]; };
    const between = (from, to, isBefore) => {
      let low = from, high = to;
      while (low < high) {
        const middle = low + ((high - low) >> 1);
        if (isBefore(middle)) low = middle + 1; else high = middle;
      }
      return low;
    };
    const runFrom = (low, high) => {
      if (low + 1 === high) return 1;
      const falls = compare(work[low + 1], work[low]) < 0;
      let end = low + 2;
      while (end < high && (compare(work[end], work[end - 1]) < 0) === falls) end += 1;
      if (falls) for (let one = low, other = end - 1; one < other; one++, other--) [work[one], work[other]] = [work[other], work[one]];
      return end - low;
    };
    const insert = (low, start, high) => {
      for (let at = start; at < high; at++) {
        const item = work[at], index = between(low, at, middle => compare(item, work[middle]) >= 0);
        for (let to = at; to > index; to--) work[to] = work[to - 1];
        work[index] = item;
      }
    };
    const gallop = (isBefore, length, hint) => {
      let last = 0, offset = 1;
      const step = (most, goesOn) => {
        while (offset < most && goesOn(offset)) { last = offset; offset = (offset << 1) + 1; }
        offset = Math.min(offset, most);
      };
      if (isBefore(hint)) { step(length - hint, by => isBefore(hint + by)); [last, offset] = [last + hint, offset + hint]; }
      else { step(hint + 1, by => !isBefore(hint - by)); [last, offset] = [hint - offset, hint - last]; }
      return between(last + 1, offset, isBefore);
    };
    const left = (from, key, base, length, hint) => gallop(at => compare(from[base + at], key) < 0, length, hint);
    const right = (from, key, base, length, hint) => gallop(at => compare(key, from[base + at]) >= 0, length, hint);
    const mergeLow = (startA, sizeA, startB, sizeB) => {
      const kept = work.slice(startA, startA + sizeA);
      let to = startA, a = 0, b = startB, ofA = sizeA, ofB = sizeB;
      const takeA = count => { move(kept, a, work, to, count); to += count; a += count; ofA -= count; };
      const takeB = count => { move(work, b, work, to, count); to += count; b += count; ofB -= count; };
      const merge = () => {
        takeB(1);
        if (ofB === 0 || ofA === 1) return;
        while (true) {
          let winsA = 0, winsB = 0;
          while (winsA < least && winsB < least) {
            if (compare(work[b], kept[a]) < 0) { takeB(1); winsB += 1; winsA = 0; if (ofB === 0) return; }
            else { takeA(1); winsA += 1; winsB = 0; if (ofA === 1) return; }
          }
          least += 1;
          do {
            least = Math.max(1, least - 1);
            winsA = right(kept, work[b], a, ofA, 0);
            if (winsA > 0) { takeA(winsA); if (ofA <= 1) return; }
            takeB(1);
            if (ofB === 0) return;
            winsB = left(work, kept[a], b, ofB, 0);
            if (winsB > 0) { takeB(winsB); if (ofB === 0) return; }
            takeA(1);
            if (ofA === 1) return;
          } while (winsA >= 7 || winsB >= 7);
          least += 1;
        }
      };
      merge();
      if (ofA === 1 && ofB > 0) takeB(ofB);
      takeA(ofA);
    };
    const mergeHigh = (startA, sizeA, startB, sizeB) => {
      const kept = work.slice(startB, startB + sizeB);
      let to = startB + sizeB, ofA = sizeA, ofB = sizeB;
      const takeA = count => { to -= count; ofA -= count; move(work, startA + ofA, work, to, count); };
      const takeB = count => { to -= count; ofB -= count; move(kept, ofB, work, to, count); };
      const merge = () => {
        takeA(1);
        if (ofA === 0 || ofB === 1) return;
        while (true) {
          let winsA = 0, winsB = 0;
          while (winsA < least && winsB < least) {
            if (compare(kept[ofB - 1], work[startA + ofA - 1]) < 0) { takeA(1); winsA += 1; winsB = 0; if (ofA === 0) return; }
            else { takeB(1); winsB += 1; winsA = 0; if (ofB === 1) return; }
          }
          least += 1;
          do {
            least = Math.max(1, least - 1);
            winsA = ofA - right(work, kept[ofB - 1], startA, ofA, ofA - 1);
            if (winsA > 0) { takeA(winsA); if (ofA === 0) return; }
            takeB(1);
            if (ofB === 1) return;
            winsB = ofB - left(kept, work[startA + ofA - 1], 0, ofB, ofB - 1);
            if (winsB > 0) { takeB(winsB); if (ofB <= 1) return; }
            takeA(1);
            if (ofA === 0) return;
          } while (winsA >= 7 || winsB >= 7);
          least += 1;
        }
      };
      merge();
      if (ofB === 1 && ofA > 0) takeA(ofA);
      takeB(ofB);
    };
    const mergeAt = at => {
      let [[startA, sizeA], [startB, sizeB]] = runs.slice(at, at + 2);
      runs.splice(at, 2, [startA, sizeA + sizeB]);
      const skipped = right(work, work[startB], startA, sizeA, 0);
      startA += skipped;
      sizeA -= skipped;
      if (sizeA === 0) return;
      sizeB = left(work, work[startA + sizeA - 1], startB, sizeB, sizeB - 1);
      if (sizeB === 0) return;
      if (sizeA <= sizeB) mergeLow(startA, sizeA, startB, sizeB); else mergeHigh(startA, sizeA, startB, sizeB);
    };
    const size = at => runs[at][1];
    const collapse = () => {
      const isFine = at => at < 2 || size(at - 2) > size(at - 1) + size(at);
      while (runs.length > 1) {
        let at = runs.length - 2;
        if (!isFine(at + 1) || !isFine(at)) { if (size(at - 1) < size(at + 1)) at -= 1; }
        else if (size(at) > size(at + 1)) return;
        mergeAt(at);
      }
    };
    let short = work.length, odd = 0;
    while (short >= 64) { odd |= short & 1; short >>= 1; }
    for (let low = 0; low < work.length && work.length > 1;) {
      let length = runFrom(low, work.length);
      const enough = Math.min(short + odd, work.length - low);
      if (length < enough) { insert(low, low + length, low + enough); length = enough; }
      runs.push([low, length]);
      collapse();
      low += length;
    }
    while (runs.length > 1) {
      const at = runs.length - 2;
      mergeAt(at > 0 && size(at - 1) < size(at + 1) ? at - 1 : at);
    }
    return work;
  };
  return {equal, isLess, ordered};
})();
