/** CodeMirror with our colours, completion of `ctx`, and problems at their lines. Loaded on demand: see CodeEditor. */

import { autocompletion, closeBrackets, type CompletionContext, type CompletionResult } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { javascript } from "@codemirror/lang-javascript";
import { json } from "@codemirror/lang-json";
import { python } from "@codemirror/lang-python";
import { sql } from "@codemirror/lang-sql";
import { bracketMatching, HighlightStyle, indentOnInput, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { setDiagnostics, lintGutter, type Diagnostic } from "@codemirror/lint";
import { Compartment, EditorState, type Extension } from "@codemirror/state";
import { EditorView, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { useEffect, useRef, type ReactElement } from "react";

import { pageNonce } from "../theme";
import type { CodeEditorProps } from "./CodeEditor";


const LANGUAGES: Record<string, () => Extension> = {
  python: () => [python(), indentUnit.of("    ")],
  javascript: () => javascript(),
  json: () => json(),
  sql: () => sql(),
};

const COLOURS = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword, tags.controlKeyword], color: "var(--waiting)" },
  { tag: [tags.string, tags.special(tags.string)], color: "light-dark(#1a6b3a, #8fdcab)" },
  { tag: [tags.number, tags.bool, tags.null], color: "light-dark(#8a4b00, #f3c06b)" },
  { tag: [tags.comment], color: "var(--faint)", fontStyle: "italic" },
  { tag: [tags.function(tags.variableName), tags.definition(tags.variableName)], color: "var(--running)" },
  { tag: [tags.propertyName], color: "var(--accent)" },
]);

const LOOK = EditorView.theme({
  "&": { fontSize: "13px", color: "var(--text)", backgroundColor: "transparent" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "20px", minHeight: "140px", maxHeight: "46vh" },
  ".cm-content": { caretColor: "var(--text)", padding: "8px 0" },
  ".cm-gutters": { backgroundColor: "var(--sunken)", color: "var(--faint)", border: "none" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "var(--hover)" },
  "&.cm-focused .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "light-dark(#0b647733, #63cadb44) !important" },
  ".cm-tooltip": { backgroundColor: "var(--raised)", border: "1px solid var(--line)", borderRadius: "8px", boxShadow: "var(--shadow)" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--accent-wash)", color: "var(--text)" },
  ".cm-diagnostic-error": { borderLeftColor: "var(--error)" },
});

export default function CodeMirrorEditor(props: CodeEditorProps): ReactElement {
  const host = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  const latest = useRef(props);
  useEffect(() => {
    latest.current = props;
  });
  const { language, readOnly = false, value, problems, label, describedBy, id } = props;

  useEffect(() => {
    const editable = new Compartment();
    const made = new EditorView({
      parent: host.current!,
      state: EditorState.create({
        doc: latest.current.value,
        extensions: [
          EditorView.cspNonce.of(pageNonce()),
          lineNumbers(),
          lintGutter(),
          history(),
          indentOnInput(),
          bracketMatching(),
          closeBrackets(),
          autocompletion({ override: [(context) => completeCtx(context, latest.current.variables ?? [])] }),
          syntaxHighlighting(COLOURS),
          LOOK,
          LANGUAGES[language]?.() ?? [],
          // Tab indents here; Escape and then Tab leaves the editor, as CodeMirror has it.
          keymap.of([...defaultKeymap, ...historyKeymap, indentWithTab]),
          editable.of([EditorView.editable.of(!readOnly), EditorState.readOnly.of(readOnly)]),
          EditorView.contentAttributes.of({ "aria-label": label, ...(id ? { id } : {}), ...(describedBy ? { "aria-describedby": describedBy } : {}) }),
          EditorView.updateListener.of((update) => {
            if (update.docChanged) latest.current.onChange(update.state.doc.toString());
          }),
        ],
      }),
    });
    view.current = made;
    return () => made.destroy();
  }, [language, readOnly, label, describedBy, id]);

  useEffect(() => {
    const editor = view.current;
    if (editor === null || editor.state.doc.toString() === value) return;
    editor.dispatch({ changes: { from: 0, to: editor.state.doc.length, insert: value } });
  }, [value]);

  useEffect(() => {
    const editor = view.current;
    if (editor === null) return;
    const diagnostics = (problems ?? []).map(({ message, severity, range }): Diagnostic => {
      const line = editor.state.doc.line(Math.min(Math.max(1, range?.line ?? 1), editor.state.doc.lines));
      const from = Math.min(line.from + Math.max(0, (range?.column ?? 1) - 1), line.to);
      return { from, to: line.to, severity, message };
    });
    editor.dispatch(setDiagnostics(editor.state, diagnostics));
  }, [problems]);

  return <div ref={host} />;
}

function completeCtx(context: CompletionContext, variables: readonly string[]): CompletionResult | null {
  const word = context.matchBefore(/ctx(?:\.|\[["'])\w*/) ?? context.matchBefore(/ctx\w*/);
  if (word === null) return null;
  const member = /^ctx(\.|\[["'])/.exec(word.text);
  if (member === null) return { from: word.from, options: [{ label: "ctx", type: "variable" }] };
  return { from: word.from + member[0].length, options: variables.map((label) => ({ label, type: "property" })), validFor: /^\w*$/ };
}
