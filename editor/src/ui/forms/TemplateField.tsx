/**
 * Text that may hold expressions: `Hello {{ ctx.user.name }}`.
 *
 * A plain text area over a coloured copy of its text, with completion of what `ctx` has at this place and, where data
 * is at hand, what it comes to. No editor is loaded for it.
 */

import { useEffect, useId, useMemo, useRef, useState, type KeyboardEvent, type ReactElement } from "react";

import { withCode } from "../withCode";
import { useFormServices, type Preview, type TemplateFilter, type Variable } from "./context";

export interface TemplateFieldProps {
  id?: string;
  label?: string;
  value: string;
  onChange: (value: string) => void;
  placeholder?: string | undefined;
  describedBy?: string | undefined;
  invalid?: boolean;
  rows?: number;
  singleLine?: boolean;
}

interface Suggestion {
  readonly text: string;
  readonly note: string;
  readonly certain: boolean;
}

/** Typing pauses this long before a preview is asked for. */
const PREVIEW_AFTER_MS = 250;

export function TemplateField(props: TemplateFieldProps): ReactElement {
  const { value, onChange, placeholder, describedBy, invalid = false, singleLine = false } = props;
  const services = useFormServices();
  const ownID = useId();
  const id = props.id ?? ownID;
  const area = useRef<HTMLTextAreaElement>(null);
  const copy = useRef<HTMLPreElement>(null);
  const [caret, setCaret] = useState<number | null>(null);
  const [chosen, setChosen] = useState(0);
  const [isClosed, setClosed] = useState(false);
  const place = caret === null || isClosed ? null : completionAt(value, caret);
  const suggestions = useMemo(() => (place === null ? [] : suggestionsFor(place.word, services.variables, services.filters)), [place?.word, services.variables, services.filters]); // eslint-disable-line react-hooks/exhaustive-deps
  const isOpen = suggestions.length > 0;
  const preview = usePreview(value);

  const take = (suggestion: Suggestion) => {
    if (place === null) return;
    const inserted = value.slice(0, place.start) + suggestion.text + value.slice(place.end);
    const at = place.start + suggestion.text.length;
    onChange(inserted);
    requestAnimationFrame(() => {
      area.current?.setSelectionRange(at, at);
      setCaret(at);
      setChosen(0);
    });
  };

  const onKeyDown = (event: KeyboardEvent) => {
    if (isOpen) {
      const index = Math.min(chosen, suggestions.length - 1);
      if (event.key === "ArrowDown") setChosen((index + 1) % suggestions.length);
      else if (event.key === "ArrowUp") setChosen((index + suggestions.length - 1) % suggestions.length);
      else if (event.key === "Enter" || (event.key === "Tab" && chosen > 0)) take(suggestions[index]!);
      else if (event.key === "Escape") setClosed(true);
      else return;
      event.preventDefault();
      event.stopPropagation();
    } else if (event.key === "Enter" && singleLine && !event.shiftKey) {
      event.preventDefault();
    }
  };

  const lines = Math.min(12, Math.max(props.rows ?? 1, value.split("\n").length));
  const shared = { minHeight: lines * 20 + 12 };
  return (
    <div className="template">
      <div className={`template-box ${invalid ? "invalid" : ""}`}>
        <pre ref={copy} aria-hidden className="template-copy" style={shared}>
          {coloured(value)}
          {"\n"}
        </pre>
        <textarea
          ref={area}
          id={id}
          className="template-area"
          style={shared}
          value={value}
          rows={lines}
          spellCheck={false}
          autoComplete="off"
          autoCapitalize="off"
          placeholder={placeholder}
          readOnly={services.readOnly}
          aria-label={props.label}
          aria-describedby={describedBy}
          aria-invalid={invalid || undefined}
          aria-autocomplete="list"
          aria-haspopup="listbox"
          aria-controls={isOpen ? `${id}-list` : undefined}
          aria-activedescendant={isOpen ? `${id}-${chosen}` : undefined}
          onChange={(event) => {
            onChange(singleLine ? event.target.value.replaceAll("\n", " ") : event.target.value);
            setCaret(event.target.selectionStart);
            setClosed(false);
            setChosen(0);
          }}
          onSelect={(event) => setCaret(event.currentTarget.selectionStart)}
          onScroll={(event) => {
            if (copy.current) copy.current.scrollTop = event.currentTarget.scrollTop;
          }}
          onBlur={() => setCaret(null)}
          onKeyDown={onKeyDown}
        />
      </div>
      <ul id={`${id}-list`} role="listbox" aria-label="Suggestions" className="suggestions" hidden={!isOpen}>
        {suggestions.map((suggestion, index) => (
          <li
            key={suggestion.text}
            id={`${id}-${index}`}
            role="option"
            aria-selected={index === chosen}
            className="menu-item"
            data-selected={index === chosen}
            onPointerDown={(event) => {
              event.preventDefault();
              take(suggestion);
            }}
          >
            <code className={suggestion.certain ? "" : "faint"}>{suggestion.text}</code>
            <span className="keys">{suggestion.note}</span>
          </li>
        ))}
      </ul>
      {preview && <PreviewLine preview={preview} />}
    </div>
  );
}

function PreviewLine({ preview }: { preview: Preview }): ReactElement {
  if ("error" in preview) {
    return (
      <p className="field-problem warning">
        <span>{withCode(preview.error)}</span>
      </p>
    );
  }
  return (
    <p className="template-preview" title={preview.value}>
      <span className="faint">now: </span>
      <code>{preview.value}</code>
      {preview.truncated && <span className="faint"> … cut</span>}
    </p>
  );
}

function usePreview(template: string): Preview | null {
  const { preview } = useFormServices();
  const [shown, setShown] = useState<{ template: string; result: Preview | null } | null>(null);
  useEffect(() => {
    if (preview === null || !template.includes("{{")) return;
    const stop = new AbortController();
    const timer = setTimeout(() => {
      preview(template, stop.signal).then(
        (result) => setShown({ template, result }),
        () => undefined,
      );
    }, PREVIEW_AFTER_MS);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [template, preview]);
  return shown !== null && template.includes("{{") ? shown.result : null;
}

/** The parts of a text: what is in braces is code. */
function coloured(text: string): ReactElement[] {
  return text.split(/(\{\{.*?(?:\}\}|$))/s).map((part, index) =>
    part.startsWith("{{") ? (
      <span key={index} className="template-code">
        {part.split(/('[^']*'|"[^"]*"|\bctx(?:\.\w+|\[\w+\])*|\|\s*\w+|\b\d+(?:\.\d+)?\b)/).map((word, at) => (
          <span key={at} className={tokenClass(word)}>
            {word}
          </span>
        ))}
      </span>
    ) : (
      <span key={index}>{part}</span>
    ),
  );
}

function tokenClass(word: string): string | undefined {
  if (/^ctx\b/.test(word)) return "token-path";
  if (/^['"]/.test(word)) return "token-text";
  if (/^\|/.test(word)) return "token-filter";
  return /^\d/.test(word) ? "token-number" : undefined;
}

interface CompletionPlace {
  readonly start: number;
  readonly end: number;
  readonly word: string;
}

/** The word before the caret, if the caret is inside of braces. */
export function completionAt(text: string, caret: number): CompletionPlace | null {
  const before = text.slice(0, caret);
  const open = before.lastIndexOf("{{");
  if (open < 0 || before.indexOf("}}", open) >= 0) return null;
  const word = /(?:\|\s*\w*|[\w.]*)$/.exec(before.slice(open + 2))?.[0] ?? "";
  return { start: caret - word.length, end: caret, word };
}

export function suggestionsFor(word: string, variables: readonly Variable[], filters: readonly TemplateFilter[]): Suggestion[] {
  if (word.startsWith("|")) {
    const begun = word.slice(1).trimStart();
    return filters
      .filter(({ name }) => name.startsWith(begun) && name !== begun)
      .map(({ name, parameters }) => ({ text: `| ${name}`, note: parameters.length === 0 ? "filter" : `(${parameters.join(", ")})`, certain: true }));
  }
  const path = /^ctx\.(\w+)\.(\w*)$/.exec(word);
  if (path) {
    const { members = [], samples = {} } = variables.find(({ name }) => name === path[1]) ?? {};
    return [...new Set([...members, ...Object.keys(samples)])]
      .filter((member) => member.startsWith(path[2]!) && member !== path[2] && /^\w+$/.test(member))
      .slice(0, 12)
      .map((member) => ({ text: `ctx.${path[1]}.${member}`, note: samples[member] ?? "", certain: members.includes(member) || member in samples }));
  }
  const begun = word.startsWith("ctx.") ? word.slice(4) : word;
  if (!"ctx.".startsWith(word) && !word.startsWith("ctx.") && !variables.some(({ name }) => name.startsWith(word))) return [];
  return variables
    .filter(({ name }) => ("ctx".startsWith(begun) || name.startsWith(begun)) && `ctx.${name}` !== word)
    .slice(0, 12)
    .map(({ name, certain, writers }) => ({
      text: `ctx.${name}`,
      note: certain ? writers.join(", ") : `maybe · ${writers.join(", ")}`,
      certain,
    }));
}
