/** The input of a run: as a form made from the workflow's schema, or as JSON; one can change between the two. */

import { useId, useState, type ReactElement } from "react";

import type { Place } from "../../api/client";
import { SchemaForm } from "../../ui/forms/SchemaForm";
import { isObjectText } from "./isObjectText";
import { hasFields, type InputSchema } from "./inputSketch";

interface InputFieldsProps {
  schema: InputSchema | null;
  text: string;
  onChange: (text: string) => void;
  onSubmit: () => void;
  places?: readonly Place[];
}

export function InputFields({ schema, text, onChange, onSubmit, places = [] }: InputFieldsProps): ReactElement {
  const id = useId();
  const canBeForm = hasFields(schema);
  const [wantsJson, setWantsJson] = useState(false);
  const asForm = canBeForm && !wantsJson && isObjectText(text);
  return (
    <div className="stack">
      {canBeForm && (
        <div className="row" role="group" aria-label="How to write the input">
          <button type="button" className="button small quiet" aria-pressed={asForm} disabled={!isObjectText(text)} onClick={() => setWantsJson(false)}>
            Form
          </button>
          <button type="button" className="button small quiet" aria-pressed={!asForm} onClick={() => setWantsJson(true)}>
            JSON
          </button>
        </div>
      )}
      {asForm ? (
        <SchemaForm
          schema={schema}
          text={text}
          onChange={onChange}
          problems={places.map(({ pointer, path, message }) => ({ pointer: (pointer ?? path ?? "").replace(/^\/input/, ""), message: message ?? "", severity: "error" }))}
        />
      ) : (
        <div className="field">
          <label htmlFor={id}>Input, as JSON</label>
          <textarea
            id={id}
            className="input mono"
            rows={Math.min(16, Math.max(5, text.split("\n").length))}
            spellCheck={false}
            autoComplete="off"
            value={text}
            onChange={(event) => onChange(event.target.value)}
            onKeyDown={(event) => {
              if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
                event.preventDefault();
                onSubmit();
              }
            }}
          />
        </div>
      )}
    </div>
  );
}
