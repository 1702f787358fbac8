/**
 * A value as tree, table or JSON, from its source text: integers of any size are shown as they are written. It is
 * opened a level at a time, so that a large value costs what is looked at.
 */

import { ChevronDown, ChevronRight, Copy, Download, Search } from "lucide-react";
import { useMemo, useState, type DragEvent, type ReactElement } from "react";

import { entriesOf, entryCountOf, kindOf, pathExpression, prettyText, searchValue, shownScalar, tableOf } from "../json";
import { IconButton } from "./Button";
import { toast } from "./toasts";

export interface ValueViewerProps {
  /** The source text. */
  text: string;
  /** What the value is called, for its file and for screen readers. */
  label: string;
  /** The expression that reads the value; paths inside can then be copied and dragged. */
  root?: string | null;
  /** How it is shown at first, where it can be shown so. */
  first?: Look;
}

type Look = "tree" | "table" | "json";

/** 200 entries of a level are shown until somebody asks for more. */
const ENTRIES_SHOWN = 200;

/** 64 kB of JSON are laid out at once; more is for a file. */
const JSON_SHOWN_MAX = 65_536;

export function ValueViewer({ text, label, root = null, first = "tree" }: ValueViewerProps): ReactElement {
  const [look, setLook] = useState<Look>(first);
  const [query, setQuery] = useState<string | null>(null);
  const table = useMemo(() => (look === "table" ? tableOf(text) : null), [look, text]);
  const isComposite = entryCountOf(text) !== null;
  const canBeTable = useMemo(() => isComposite && kindOf(text) === "array" && tableOf(text) !== null, [text, isComposite]);
  const copy = (what: string, words: string) => {
    void navigator.clipboard.writeText(what).then(() => toast(words));
  };
  const download = () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
    link.download = `${label.toLowerCase().replace(/[^a-z0-9]+/g, "-")}.json`;
    link.click();
    URL.revokeObjectURL(link.href);
  };
  return (
    <div className="value">
      <div className="value-bar">
        {(["tree", ...(canBeTable ? ["table" as const] : []), "json"] as Look[]).map((each) => (
          <button key={each} type="button" className="button quiet small" aria-pressed={look === each} onClick={() => setLook(each)}>
            {each === "json" ? "JSON" : each === "tree" ? "Tree" : "Table"}
          </button>
        ))}
        <span className="grow" />
        {isComposite && <IconButton label={`Search in ${label}`} icon={<Search size={14} />} small aria-pressed={query !== null} onClick={() => setQuery(query === null ? "" : null)} />}
        <IconButton label={`Copy ${label}`} icon={<Copy size={14} />} small onClick={() => copy(prettyText(text), "Copied")} />
        <IconButton label={`Download ${label}`} icon={<Download size={14} />} small onClick={download} />
      </div>
      {query !== null && (
        <div style={{ padding: 6 }}>
          <input className="input" type="search" autoFocus aria-label={`Search in ${label}`} placeholder="Search names and values" value={query} onChange={(event) => setQuery(event.target.value)} />
        </div>
      )}
      <div className="value-body" tabIndex={0} role="region" aria-label={label}>
        {query ? (
          <Found text={text} query={query} root={root} onCopy={copy} />
        ) : look === "table" && table ? (
          <TableView table={table} />
        ) : look === "json" ? (
          <JsonView text={text} />
        ) : (
          <Tree text={text} path={[]} root={root} onCopy={copy} depth={0} />
        )}
      </div>
    </div>
  );
}

type Path = readonly (string | number)[];
type Copier = (what: string, words: string) => void;

function Tree({ text, path, root, onCopy, depth }: { text: string; path: Path; root: string | null; onCopy: Copier; depth: number }): ReactElement {
  const [shown, setShown] = useState(ENTRIES_SHOWN);
  const count = entryCountOf(text);
  if (count === null) return <Scalar text={text} />;
  if (count === 0) return <span className="faint">{kindOf(text) === "array" ? "empty list" : "empty object"}</span>;
  return (
    <div>
      {entriesOf(text, 0, shown).map(({ key, text: inner }, index) => (
        <Entry key={index} name={key} text={inner} path={[...path, key]} root={root} onCopy={onCopy} depth={depth} />
      ))}
      {count > shown && (
        <button type="button" className="button small quiet" onClick={() => setShown(shown + 5 * ENTRIES_SHOWN)}>
          {(count - shown).toLocaleString("en")} more
        </button>
      )}
    </div>
  );
}

function Entry({ name, text, path, root, onCopy, depth }: { name: string | number; text: string; path: Path; root: string | null; onCopy: Copier; depth: number }): ReactElement {
  const count = entryCountOf(text);
  const [isOpen, setOpen] = useState(depth < 1 && (count ?? 0) <= 20);
  const expression = root === null ? null : pathExpression(path, root);
  const drag = (event: DragEvent) => {
    if (expression !== null) event.dataTransfer.setData("text/plain", `{{ ${expression} }}`);
  };
  const key = (
    <button
      type="button"
      className="tree-key"
      title={expression === null ? undefined : `Copy {{ ${expression} }}`}
      draggable={expression !== null}
      onDragStart={drag}
      onClick={() => expression !== null && onCopy(`{{ ${expression} }}`, `Copied {{ ${expression} }}`)}
    >
      {name}
    </button>
  );
  return (
    <div>
      <div className="tree-line">
        {count === null ? (
          <span style={{ width: 24, flex: "none" }} />
        ) : (
          <button type="button" className="tree-toggle" aria-expanded={isOpen} aria-label={`${isOpen ? "Close" : "Open"} ${name}`} onClick={() => setOpen(!isOpen)}>
            {isOpen ? <ChevronDown size={14} /> : <ChevronRight size={14} />}
          </button>
        )}
        {key}
        <span className="faint">:</span>
        {count === null ? <Scalar text={text} /> : <span className="faint">{kindOf(text) === "array" ? `${count} ${count === 1 ? "item" : "items"}` : `${count} ${count === 1 ? "field" : "fields"}`}</span>}
      </div>
      {isOpen && count !== null && count > 0 && (
        <div className="tree-children">
          <Tree text={text} path={path} root={root} onCopy={onCopy} depth={depth + 1} />
        </div>
      )}
    </div>
  );
}

/** Longer texts are cut until somebody asks for all of it. */
const SCALAR_SHOWN_MAX = 2_000;

function Scalar({ text }: { text: string }): ReactElement {
  const [isWhole, setWhole] = useState(false);
  const kind = kindOf(text);
  const shown = kind === "string" ? shownScalar(text) : text.trim();
  const cut = !isWhole && shown.length > SCALAR_SHOWN_MAX;
  return (
    <span className="tree-value" data-kind={kind}>
      {kind === "string" && shown === "" ? <span className="faint">empty text</span> : cut ? shown.slice(0, SCALAR_SHOWN_MAX) : shown}
      {cut && (
        <button type="button" className="button small quiet" onClick={() => setWhole(true)}>
          {(shown.length - SCALAR_SHOWN_MAX).toLocaleString("en")} more characters
        </button>
      )}
    </span>
  );
}

function TableView({ table }: { table: NonNullable<ReturnType<typeof tableOf>> }): ReactElement {
  return (
    <>
      <table>
        <thead>
          <tr>
            {table.columns.map((column) => (
              <th key={column} scope="col">
                {column}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {table.rows.map((row, index) => (
            <tr key={index}>
              {row.map((cell, at) => (
                <td key={at} title={cell}>
                  {cell === undefined ? "" : entryCountOf(cell) === null ? shownScalar(cell) : cell}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {table.rowsOmitted > 0 && <p className="faint">{table.rowsOmitted.toLocaleString("en")} more rows are in the tree.</p>}
    </>
  );
}

function JsonView({ text }: { text: string }): ReactElement {
  const isCut = text.length > JSON_SHOWN_MAX;
  return (
    <>
      <pre>{isCut ? text.slice(0, JSON_SHOWN_MAX) : prettyText(text)}</pre>
      {isCut && <p className="faint">{(text.length - JSON_SHOWN_MAX).toLocaleString("en")} more characters: download the value to read them.</p>}
    </>
  );
}

function Found({ text, query, root, onCopy }: { text: string; query: string; root: string | null; onCopy: Copier }): ReactElement {
  const found = useMemo(() => searchValue(text, query), [text, query]);
  if (found.length === 0) return <span className="faint">Nothing in here contains “{query}”.</span>;
  return (
    <ul>
      {found.map(({ path }, index) => {
        const expression = pathExpression(path, root ?? "value");
        return (
          <li key={index}>
            <button type="button" className="tree-key" onClick={() => onCopy(root === null ? expression : `{{ ${expression} }}`, `Copied ${expression}`)}>
              {expression}
            </button>
          </li>
        );
      })}
    </ul>
  );
}
