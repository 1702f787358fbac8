/** A dialog with a form made from a schema; the server's problems at their fields. */

import type { ReactElement, ReactNode } from "react";

import { ApiError } from "../../api/client";
import { SchemaForm } from "../../ui/forms/SchemaForm";
import type { JsonSchema } from "../../ui/forms/schema";
import { SaveDialog, type SaveDialogProps } from "./SaveDialog";

interface FormDialogProps extends Omit<SaveDialogProps, "children"> {
  schema: JsonSchema;
  /** The text of the object that the form is about. */
  text: string;
  onChange: (text: string) => void;
  /** What stands below the form. */
  children?: ReactNode;
}

export function FormDialog({ schema, text, onChange, children, ...dialog }: FormDialogProps): ReactElement {
  return (
    <SaveDialog {...dialog}>
      {(problem) => (
        <>
          <SchemaForm
            schema={schema}
            text={text}
            onChange={onChange}
            problems={placesOf(problem).map(({ pointer, path, message }) => ({ pointer: pointer ?? path ?? "", message: message ?? "", severity: "error" }))}
          />
          {children}
        </>
      )}
    </SaveDialog>
  );
}

function placesOf(problem: unknown): ApiError["places"] {
  return problem instanceof ApiError ? problem.places : [];
}
