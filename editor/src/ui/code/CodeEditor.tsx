/** A code field. The editor itself is loaded when the first one is shown; until then the code is there to be read. */

import { lazy, Suspense, type ReactElement } from "react";

import type { FieldProblem } from "../forms/context";

export interface CodeEditorProps {
  id?: string;
  label: string;
  language: string;
  value: string;
  onChange: (value: string) => void;
  readOnly?: boolean;
  describedBy?: string | undefined;
  /** Names in `ctx`, for completion. */
  variables?: readonly string[];
  problems?: readonly (FieldProblem & { range?: { line: number; column: number } | null })[];
}

const CodeMirrorEditor = lazy(() => import("./CodeMirrorEditor"));

export function CodeEditor(props: CodeEditorProps): ReactElement {
  return (
    <div className="code-editor">
      <Suspense fallback={<pre className="loading">{props.value}</pre>}>
        <CodeMirrorEditor {...props} />
      </Suspense>
    </div>
  );
}
