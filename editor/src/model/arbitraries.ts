/** Made-up workflow documents for property tests, in any layout, with unknown fields and odd values. */

import fc from "fast-check";

import { jsonTexts, spaces } from "../json/arbitraries";
import { readDocument, type WorkflowDocument } from "./document";

const position = fc.tuple(fc.integer({ min: -2_000, max: 2_000 }), fc.integer({ min: -2_000, max: 2_000 }));
const extra = fc.option(fc.tuple(fc.constantFrom('"x-1"', '"1"', '"0"', '"colour"'), jsonTexts), { nil: undefined });

function nodeText(id: string): fc.Arbitrary<string> {
  const type = fc.constantFrom("set", "condition", "loop", "httpRequest", "mine.own");
  return fc.tuple(type, spaces, jsonTexts, fc.option(position, { nil: undefined }), extra, spaces).map(([type, a, config, place, unknown, b]) => {
    const members = [`"id": ${JSON.stringify(id)}`, `"type":${a}"${type}"`, `"config": {"value":${config}${b}}`];
    if (place !== undefined) members.push(`"position": {"x": ${place[0]}, "y": ${place[1]}}`);
    if (unknown !== undefined) members.push(unknown.join(": "));
    return `{${a}${members.join(`,${b}`)}}`;
  });
}

function edgeText(ids: readonly string[]): fc.Arbitrary<string> {
  const end = ids.length === 0 ? fc.constant("nowhere") : fc.constantFrom(...ids);
  return fc.tuple(end, end, fc.constantFrom("", ', "sourceHandle": null', ', "sourceHandle": "error"'), spaces).map(
    ([source, target, handle, space]) => `{"upstreamNodeID": "${source}",${space}"downstreamNodeID": "${target}"${handle}}`,
  );
}

const noteTexts = fc.tuple(fc.nat({ max: 99 }), position).map(([id, [x, y]]) => `{"id": "note${id}", "text": "see", "position": {"x": ${x}, "y": ${y}}}`);

function listText(items: fc.Arbitrary<string>, maxLength: number): fc.Arbitrary<string> {
  return fc.tuple(fc.array(fc.tuple(spaces, items, spaces), { maxLength }), spaces).map(([each, close]) => {
    return each.length === 0 ? `[${close}]` : `[${each.map(([a, item, b]) => a + item + b).join(",")}${close}]`;
  });
}

/** The text of a document whose edges may connect anything with anything. */
export const documentTexts: fc.Arbitrary<string> = fc
  .uniqueArray(fc.constantFrom("start", "a", "b", "c", "d", "e", "f", "7", "10", "é"), { maxLength: 7 })
  .chain((ids) => {
    const nodes = fc.tuple(...ids.map((id) => fc.tuple(spaces, nodeText(id), spaces))).map((each) => {
      return `[${each.map((parts) => parts.join("")).join(",")}]`;
    });
    const members = fc.record({
      nodes,
      edges: listText(edgeText(ids), 8),
      notes: fc.option(listText(noteTexts, 3), { nil: undefined }),
      unknown: extra,
      options: jsonTexts,
    });
    return fc.tuple(members, spaces, spaces, fc.boolean());
  })
  .map(([{ nodes, edges, notes, unknown, options }, a, b, edgesFirst]) => {
    const lists = [`"nodes":${a}${nodes}`, `${b}"edges": ${edges}`];
    if (edgesFirst) lists.reverse();
    const members = [`"title": "one"`, `"workflowOptions":${options}`, ...lists];
    if (notes !== undefined) members.push(`"notes": ${notes}`);
    if (unknown !== undefined) members.push(unknown.join(":"));
    return `${a}{${members.join(`,${a}`)}${b}}${b}`;
  });

export const documents: fc.Arbitrary<WorkflowDocument> = documentTexts.map(readDocument);
