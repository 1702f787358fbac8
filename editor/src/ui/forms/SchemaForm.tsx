/**
 * One form renderer over JSON Schema and `x-ui`, for node settings, run inputs and settings pages alike.
 *
 * It works on the source text of a JSON object and changes only the field that was changed, so that integers of any
 * size, unknown fields and the order of keys stay as they are.
 */

import { ArrowDown, ArrowUp, CircleAlert, Code, Plus, Trash2, TriangleAlert } from "lucide-react";
import { useId, useState, type ReactElement, type ReactNode } from "react";

import { entriesOf, formatPointer, isNumberText, kindOf, memberText, prettyText, removeAt, scanDocument, setAt, shownScalar, textAt, textOf } from "../../json";
import { Button, IconButton } from "../Button";
import { CodeEditor } from "../code/CodeEditor";
import { withCode } from "../withCode";
import { useFormServices, type FieldProblem, type NamedExits } from "./context";
import { fieldOf, propertiesOf, sketch, titleOf, type Field, type JsonSchema } from "./schema";
import { TemplateField } from "./TemplateField";

export interface SchemaFormProps {
  schema: JsonSchema;
  /** The source text of the object that the form is about. */
  text: string;
  onChange: (text: string) => void;
  /** May texts hold templates? */
  templates?: boolean;
  problems?: readonly FieldProblem[];
  /** Fields that are not shown. */
  omit?: ReadonlySet<string>;
}

/** A place in the text, and what may be done there. */
interface Place {
  readonly root: JsonSchema;
  readonly text: string;
  readonly pointer: readonly string[];
  /** The source text of the value; undefined if there is none. */
  readonly value: string | undefined;
  set(value: string | undefined): void;
  at(name: string): Place;
  readonly problems: readonly FieldProblem[];
}

export function SchemaForm({ schema, text, onChange, templates = false, problems = [], omit }: SchemaFormProps): ReactElement {
  const object = kindOf(text) === "object" ? text : "{}";
  const place = placeOf(schema, object, [], onChange, problems);
  const field = fieldOf(schema, schema, templates);
  return (
    <div className="form">
      <Properties field={field} place={place} omit={omit} />
    </div>
  );
}

function placeOf(root: JsonSchema, text: string, pointer: readonly string[], onChange: (text: string) => void, problems: readonly FieldProblem[]): Place {
  return {
    root,
    text,
    pointer,
    value: textAt(text, pointer),
    set: (value) => {
      if (value !== undefined) onChange(setAt(text, pointer, value));
      else if (textAt(text, pointer) !== undefined) onChange(removeAt(text, pointer));
    },
    at: (name) => placeOf(root, text, [...pointer, name], onChange, problems),
    problems,
  };
}

function Properties({ field, place, omit }: { field: Field; place: Place; omit?: ReadonlySet<string> | undefined }): ReactElement {
  const properties = propertiesOf(field, place.root).filter(({ name, field: inner }) => !omit?.has(name) && isShown(inner, place));
  const known = new Set(Object.keys(field.schema.properties ?? {}));
  const unknown = entriesOf(place.value ?? "{}").filter(({ key }) => !known.has(String(key)));
  const plain = properties.filter(({ field: inner, name }) => !inner.ui.advanced || place.at(name).value !== undefined);
  const advanced = properties.filter((property) => !plain.includes(property));
  const groups = new Map<string, typeof plain>();
  for (const property of plain) {
    const group = property.field.ui.group ?? "";
    groups.set(group, [...(groups.get(group) ?? []), property]);
  }
  const show = ({ name, field: inner, required }: (typeof properties)[number]) => (
    <FieldRow key={name} name={name} field={inner} required={required} place={place.at(name)} />
  );
  return (
    <>
      {[...groups].map(([group, members]) => (
        <div key={group} className="form-group">
          {group && groups.size > 1 && place.pointer.length === 0 && <h3>{group}</h3>}
          {members.map(show)}
        </div>
      ))}
      {advanced.length > 0 && (
        <details>
          <summary>More settings</summary>
          <div className="form-group">{advanced.map(show)}</div>
        </details>
      )}
      {unknown.length > 0 && known.size > 0 && (
        <details>
          <summary>
            {unknown.length} more {unknown.length === 1 ? "field" : "fields"}, kept as they are
          </summary>
          <div className="form-group">
            {unknown.map(({ key }) => (
              <FieldRow key={key} name={String(key)} field={fieldOf({}, {}, field.template)} required={false} place={place.at(String(key))} />
            ))}
          </div>
        </details>
      )}
      {known.size === 0 && properties.length === 0 && <KeyValues field={field} place={place} label="Fields" />}
    </>
  );
}

/** Does `showIf` hold, or has the field a value that must not be hidden? */
function isShown(field: Field, parent: Place): boolean {
  const conditions = Object.entries(field.ui.showIf ?? {});
  return conditions.every(([pointer, wanted]) => {
    const found = textAt(parent.value ?? "{}", pointer.split("/").slice(1));
    const value = found === undefined ? null : (JSON.parse(found) as unknown);
    return Array.isArray(wanted) ? wanted.includes(value) : wanted === value;
  });
}

interface RowProps {
  name: string;
  field: Field;
  required: boolean;
  place: Place;
}

function FieldRow({ name, field, required, place }: RowProps): ReactElement {
  const id = useId();
  const pointer = formatPointer(place.pointer);
  const own = place.problems.filter((problem) => problem.pointer === pointer || (problem.pointer.startsWith(`${pointer}/`) && !isComposite(field)));
  const title = titleOf(name, field);
  const describedBy = [field.schema.description ? `${id}-help` : "", own.length > 0 ? `${id}-problem` : ""].filter(Boolean).join(" ") || undefined;
  const control: ControlProps = { id, title, field, place, describedBy, invalid: own.some(({ severity }) => severity === "error") };
  const { node, labelled, extra } = controlFor(control);
  return (
    <div className="field" data-pointer={pointer}>
      <div className="field-head">
        {labelled ? (
          <label htmlFor={id}>
            {title} {!required && field.schema.default === undefined && <span className="optional faint small">optional</span>}
          </label>
        ) : (
          <span className="field-label" id={`${id}-label`}>
            {title}
          </span>
        )}
        {extra}
      </div>
      {node}
      {field.schema.description && (
        <p className="field-help" id={`${id}-help`}>
          {withCode(field.schema.description)}
        </p>
      )}
      {own.length > 0 && (
        <div id={`${id}-problem`}>
          {own.map((problem, index) => (
            <p key={index} className={`field-problem ${problem.severity}`}>
              {problem.severity === "error" ? <CircleAlert size={14} aria-label="Problem" /> : <TriangleAlert size={14} aria-label="Warning" />}
              <span>{withCode(problem.message)}</span>
            </p>
          ))}
        </div>
      )}
    </div>
  );
}

interface ControlProps {
  id: string;
  title: string;
  field: Field;
  place: Place;
  describedBy: string | undefined;
  invalid: boolean;
}

interface Control {
  node: ReactNode;
  /** Is there one element with the id, that a label names? */
  labelled: boolean;
  extra?: ReactNode;
}

function isComposite(field: Field): boolean {
  return field.types.has("object") || field.types.has("array") || field.types.size === 0;
}

function controlFor(props: ControlProps): Control {
  const { field, place } = props;
  const { ui } = field;
  const isTemplate = field.template && place.value !== undefined && kindOf(place.value) === "string" && shownScalar(place.value).includes("{{");
  if (ui.widget === "code") return { node: <CodeControl {...props} />, labelled: false };
  if (ui.widget === "branches") return { node: <Branches {...props} />, labelled: false };
  if (ui.widget === "workflow" || ui.widget === "query") return { node: <NameControl {...props} />, labelled: true };
  if (ui.widget === "secret") return { node: <SecretControl {...props} />, labelled: true };
  if (ui.widget === "keyValue" && !isTemplate) return { node: <KeyValues field={field} place={place} label={props.title} />, labelled: false, extra: <TemplateSwitch {...props} /> };
  if (isTemplate) return { node: <TextControl {...props} />, labelled: true, extra: isText(field) ? null : <TemplateSwitch {...props} on /> };
  if (field.options !== null) return { node: <Choice {...props} />, labelled: true, extra: <TemplateSwitch {...props} /> };
  if (field.types.size === 1 && field.types.has("boolean")) return { node: <YesNo {...props} />, labelled: true, extra: <TemplateSwitch {...props} /> };
  if (field.variants.some((variant) => variant.schema.properties)) return { node: <Variants {...props} />, labelled: true };
  if (isText(field)) return { node: <TextControl {...props} />, labelled: true };
  if (isNumber(field)) return { node: <NumberControl {...props} />, labelled: true, extra: <TemplateSwitch {...props} /> };
  if (field.types.has("number") && field.types.has("string")) return { node: <TextControl {...props} />, labelled: true };
  if (field.types.size === 1 && field.types.has("array")) return { node: <List {...props} />, labelled: false, extra: <TemplateSwitch {...props} /> };
  if (field.types.size === 1 && field.types.has("object")) {
    return { node: field.schema.properties ? <Nested {...props} /> : <KeyValues field={field} place={place} label={props.title} />, labelled: false };
  }
  if (ui.widget === "expression" && (place.value === undefined || kindOf(place.value) === "string")) return { node: <TextControl {...props} />, labelled: true };
  return { node: <AnyValue {...props} />, labelled: true };
}

function isText(field: Field): boolean {
  return field.types.size === 1 && field.types.has("string");
}

function isNumber(field: Field): boolean {
  return field.types.size > 0 && [...field.types].every((type) => type === "number" || type === "integer");
}

/** Text as it is edited: a string's content; another scalar as it is written. */
function editedText(value: string | undefined): string {
  if (value === undefined || value === "null") return "";
  return kindOf(value) === "string" ? shownScalar(value) : value;
}

function defaultText(field: Field): string | undefined {
  if (field.ui.placeholder !== undefined) return field.ui.placeholder;
  const given = field.schema.default;
  return given === undefined || given === null || typeof given === "object" ? undefined : String(given);
}

/** Empty text takes an optional field out; where numbers are also taken, what looks like one is one. */
function writtenText(field: Field, typed: string): string | undefined {
  if (typed === "") return undefined;
  const takesNumbers = field.types.has("number") || field.types.has("integer");
  return takesNumbers && isNumberText(typed.trim()) ? typed.trim() : JSON.stringify(typed);
}

function TextControl({ id, title, field, place, describedBy, invalid }: ControlProps): ReactElement {
  const { readOnly, exits } = useFormServices();
  const text = editedText(place.value);
  const change = (typed: string) => place.set(writtenText(field, typed));
  if (exits !== null && isExitName(place, exits)) {
    return <NameInput id={id} name={text} label={title} onRename={(to) => (text === "" ? change(to) : exits.rename(text, to))} />;
  }
  if (field.template || field.ui.widget === "expression") {
    return <TemplateField id={id} value={text} onChange={change} placeholder={defaultText(field)} describedBy={describedBy} invalid={invalid} />;
  }
  const shared = { id, className: "input", value: text, placeholder: defaultText(field), readOnly, "aria-describedby": describedBy, "aria-invalid": invalid || undefined };
  if (text.includes("\n") || field.schema.format === "textarea") {
    return <textarea {...shared} rows={4} onChange={(event) => change(event.target.value)} />;
  }
  return <input {...shared} type="text" autoComplete="off" spellCheck={false} data-title={title} onChange={(event) => change(event.target.value)} />;
}

/** Is it the name of an exit, as `/cases/1/id` is? */
function isExitName({ pointer }: Place, { items, id }: NamedExits): boolean {
  return pointer.at(-1) === id && formatPointer(pointer.slice(0, -2)) === items;
}

function NumberControl({ id, field, place, describedBy, invalid }: ControlProps): ReactElement {
  const { readOnly } = useFormServices();
  const kept = editedText(place.value);
  const [typed, setTyped] = useState<string | null>(null);
  const shown = typed ?? kept;
  const isWrong = shown !== "" && !isNumberText(shown.trim());
  return (
    <>
      <input
        id={id}
        className="input numbers"
        inputMode="decimal"
        autoComplete="off"
        value={shown}
        placeholder={defaultText(field)}
        readOnly={readOnly}
        aria-describedby={describedBy}
        aria-invalid={invalid || isWrong || undefined}
        onChange={(event) => {
          const text = event.target.value.trim();
          setTyped(event.target.value);
          if (text === "") place.set(undefined);
          else if (isNumberText(text)) place.set(text);
        }}
        onBlur={() => setTyped(null)}
      />
      {isWrong && <p className="field-problem">This is not a number.</p>}
    </>
  );
}

function Choice({ id, field, place, describedBy, invalid }: ControlProps): ReactElement {
  const { readOnly } = useFormServices();
  // Upper and lower case of one word are one choice.
  const options = (field.options ?? []).filter(
    (option, index, all) => !(typeof option === "string" && option === option.toLowerCase() && all.some((other, at) => at < index && String(other).toLowerCase() === option)),
  );
  const texts = options.map((option) => JSON.stringify(option));
  const value = place.value === "null" ? undefined : place.value;
  const given = field.schema.default;
  return (
    <select
      id={id}
      className="input"
      value={value ?? ""}
      disabled={readOnly}
      aria-describedby={describedBy}
      aria-invalid={invalid || undefined}
      onChange={(event) => place.set(event.target.value === "" ? undefined : event.target.value)}
    >
      <option value="">{given === undefined || given === null ? (field.ui.placeholder ?? "—") : `${String(given)} (default)`}</option>
      {value !== undefined && !texts.includes(value) && <option value={value}>{shownScalar(value)}</option>}
      {texts.map((text, index) => (
        <option key={text} value={text}>
          {String(options[index])}
        </option>
      ))}
    </select>
  );
}

function YesNo({ id, field, place, describedBy, invalid }: ControlProps): ReactElement {
  const { readOnly } = useFormServices();
  const value = place.value === "true" || place.value === "false" ? place.value : "";
  const byDefault = field.schema.default === true ? "yes" : "no";
  return (
    <select
      id={id}
      className="input"
      value={value}
      disabled={readOnly}
      aria-describedby={describedBy}
      aria-invalid={invalid || undefined}
      onChange={(event) => place.set(event.target.value || undefined)}
    >
      <option value="">{byDefault} (default)</option>
      <option value="true">yes</option>
      <option value="false">no</option>
    </select>
  );
}

/** Switches a field that is not a text between its own control and an expression. */
function TemplateSwitch({ field, place, title, on = false }: ControlProps & { on?: boolean }): ReactElement | null {
  const { readOnly } = useFormServices();
  if (!field.template || readOnly) return null;
  return (
    <IconButton
      label={on ? `${title}: choose a fixed value` : `${title}: use an expression`}
      icon={<Code size={14} />}
      small
      aria-pressed={on}
      onClick={() => place.set(on ? undefined : JSON.stringify("{{ ctx. }}"))}
    />
  );
}

function NameControl({ id, field, place, describedBy, invalid }: ControlProps): ReactElement {
  const { workflows, queries, readOnly } = useFormServices();
  const names = field.ui.widget === "workflow" ? workflows.map((name) => ({ id: name, name })) : queries;
  return (
    <>
      <input
        id={id}
        className="input"
        list={`${id}-names`}
        value={editedText(place.value)}
        placeholder={field.ui.widget === "workflow" ? "name of a workflow" : "name of a query"}
        readOnly={readOnly}
        autoComplete="off"
        aria-describedby={describedBy}
        aria-invalid={invalid || undefined}
        onChange={(event) => place.set(writtenText(field, event.target.value))}
      />
      <datalist id={`${id}-names`}>
        {names.map(({ id: value, name }) => (
          <option key={value} value={name} />
        ))}
      </datalist>
    </>
  );
}

/** A stored secret by its name; typing the secret itself shows a warning. */
function SecretControl({ id, field, place, describedBy, invalid }: ControlProps): ReactElement {
  const { secrets, readOnly } = useFormServices();
  const text = editedText(place.value);
  const name = /^\{\{\s*secret\.(\w+)\s*\}\}$/.exec(text)?.[1];
  return (
    <>
      <input
        id={id}
        className="input mono"
        list={`${id}-names`}
        value={text}
        placeholder="{{secret.NAME}}"
        readOnly={readOnly}
        autoComplete="off"
        spellCheck={false}
        aria-describedby={describedBy}
        aria-invalid={invalid || undefined}
        onChange={(event) => place.set(writtenText(field, event.target.value))}
      />
      <datalist id={`${id}-names`}>
        {secrets.map((secret) => (
          <option key={secret} value={`{{secret.${secret}}}`} />
        ))}
      </datalist>
      {text !== "" && name === undefined && !text.includes("{{") && (
        <p className="field-problem warning">This text is saved with the workflow, for everybody who may read it. Store it as a secret instead.</p>
      )}
    </>
  );
}

function CodeControl({ id, title, field, place, describedBy }: ControlProps): ReactElement {
  const { readOnly, variables } = useFormServices();
  return (
    <CodeEditor
      id={id}
      label={title}
      language={field.ui.language ?? "text"}
      value={editedText(place.value)}
      onChange={(typed) => place.set(JSON.stringify(typed))}
      readOnly={readOnly}
      describedBy={describedBy}
      variables={variables.map(({ name }) => name)}
      problems={place.problems.filter(({ pointer }) => pointer === formatPointer(place.pointer))}
    />
  );
}

function Nested({ title, field, place }: ControlProps): ReactElement {
  return (
    <fieldset>
      <legend className="visually-hidden">{title}</legend>
      <Properties field={field} place={place} />
    </fieldset>
  );
}

/** One of several objects, or none: which it is, is chosen by its title. */
function Variants({ id, title, field, place, describedBy }: ControlProps): ReactElement {
  const { readOnly } = useFormServices();
  const value = place.value === "null" ? undefined : place.value;
  const current = value === undefined ? -1 : bestVariant(field.variants, value);
  const variant = field.variants[current];
  return (
    <>
      <select
        id={id}
        className="input"
        value={current}
        disabled={readOnly}
        aria-describedby={describedBy}
        onChange={(event) => {
          const chosen = field.variants[Number(event.target.value)];
          place.set(chosen === undefined ? undefined : textOf(sketchRequired(chosen, place.root)));
        }}
      >
        <option value={-1}>none</option>
        {field.variants.map((each, index) => (
          <option key={index} value={index}>
            {each.schema.title ?? [...each.types].join(" or ") ?? `form ${index + 1}`}
          </option>
        ))}
      </select>
      {variant?.schema.properties && (
        <fieldset>
          <legend className="visually-hidden">{title}</legend>
          <Properties field={variant} place={place} omit={constants(variant, place.root)} />
        </fieldset>
      )}
    </>
  );
}

/** Fields that have one value only say which variant it is: nobody needs to see them. */
function constants(variant: Field, root: JsonSchema): ReadonlySet<string> {
  return new Set(propertiesOf(variant, root).filter(({ field }) => field.options?.length === 1).map(({ name }) => name));
}

function bestVariant(variants: readonly Field[], value: string): number {
  const kind = kindOf(value);
  const fits = (variant: Field) => {
    if (!variant.types.has(kind) && variant.types.size > 0) return -1;
    const names = Object.entries(variant.schema.properties ?? {});
    const isOther = names.some(([name, schema]) => {
      const inner = schema.const ?? schema.anyOf?.find((choice) => choice.const !== undefined)?.const;
      return inner !== undefined && memberText(value, name) !== JSON.stringify(inner);
    });
    return isOther ? -1 : names.filter(([name]) => memberText(value, name) !== undefined).length;
  };
  const scores = variants.map(fits);
  const best = Math.max(...scores);
  return best < 0 ? -1 : scores.indexOf(best);
}

function sketchRequired(variant: Field, root: JsonSchema): unknown {
  const required = propertiesOf(variant, root).filter((property) => property.required);
  return Object.fromEntries(required.map(({ name, field }) => [name, field.options?.[0] ?? sketch(field.schema, root) ?? ""]));
}

function List({ title, field, place }: ControlProps): ReactElement {
  const { readOnly } = useFormServices();
  const item = fieldOf(field.schema.items ?? {}, place.root, field.template);
  const value = place.value !== undefined && kindOf(place.value) === "array" ? place.value : "[]";
  const items = entriesOf(value);
  return (
    <div className="rows" role="group" aria-label={title}>
      {items.map(({ key }) => {
        const inner = place.at(String(key));
        const control = controlFor({ id: `${formatPointer(inner.pointer)}`, title: `${title} ${Number(key) + 1}`, field: item, place: inner, describedBy: undefined, invalid: false });
        return (
          <div key={key} className="list-item">
            <div aria-label={`${title} ${Number(key) + 1}`}>{control.node}</div>
            {!readOnly && <IconButton label={`Remove ${title} ${Number(key) + 1}`} icon={<Trash2 size={14} />} small onClick={() => inner.set(undefined)} />}
          </div>
        );
      })}
      {!readOnly && (
        <Button small look="quiet" onClick={() => place.set(setAt(value, ["-"], textOf(sketch(item.schema, place.root) ?? "")))}>
          <Plus size={14} /> Add
        </Button>
      )}
    </div>
  );
}

/** The branches of a condition, asked from top to bottom: each with its exit and when it is taken. */
function Branches({ title, place }: ControlProps): ReactElement {
  const { readOnly, exits } = useFormServices();
  const value = place.value !== undefined && kindOf(place.value) === "array" ? place.value : "[]";
  const branches = entriesOf(value);
  const idOf = (text: string) => editedText(memberText(text, "id"));
  const add = () => {
    const taken = new Set(branches.map(({ text }) => idOf(text)));
    let id = taken.size === 0 ? "yes" : `branch${taken.size + 1}`;
    while (taken.has(id)) id = `${id}_`;
    place.set(setAt(value, ["-"], `{"id": ${JSON.stringify(id)}, "expression": "{{ ctx. }}"}`));
  };
  const move = (index: number, by: number) => {
    const texts = branches.map(({ text }) => text);
    const [taken] = texts.splice(index, 1);
    texts.splice(index + by, 0, taken!);
    place.set(`[${texts.join(", ")}]`);
  };
  return (
    <div className="rows" role="group" aria-label={title}>
      {branches.map(({ text }, index) => {
        const inner = place.at(String(index));
        const id = idOf(text);
        const name = id || `${index + 1}`;
        const pointer = formatPointer(inner.pointer);
        const rename = (to: string) => (exits === null || id === "" ? inner.at("id").set(JSON.stringify(to)) : exits.rename(id, to));
        return (
          <div key={index} className="branch">
            <NameInput name={id} label={`Exit ${index + 1}`} onRename={rename} />
            {!readOnly && (
              <div className="row" style={{ gap: 0 }}>
                <IconButton label={`Ask ${name} earlier`} icon={<ArrowUp size={14} />} small disabled={index === 0} onClick={() => move(index, -1)} />
                <IconButton label={`Ask ${name} later`} icon={<ArrowDown size={14} />} small disabled={index === branches.length - 1} onClick={() => move(index, 1)} />
                <IconButton label={`Remove ${name}`} icon={<Trash2 size={14} />} small onClick={() => inner.set(undefined)} />
              </div>
            )}
            <TemplateField
              label={`Taken when, for ${name}`}
              value={editedText(memberText(text, "expression"))}
              onChange={(typed) => inner.at("expression").set(typed === "true" || typed === "false" ? typed : JSON.stringify(typed))}
              placeholder="{{ ctx.amount > 100 }}"
              invalid={place.problems.some((problem) => problem.severity === "error" && problem.pointer.startsWith(`${pointer}/`))}
            />
            {place.problems
              .filter((problem) => problem.pointer === pointer || problem.pointer.startsWith(`${pointer}/`))
              .map((problem, at) => (
                <p key={at} className={`field-problem full ${problem.severity}`}>
                  <span>{withCode(problem.message)}</span>
                </p>
              ))}
          </div>
        );
      })}
      {!readOnly && (
        <div>
          <Button small look="quiet" onClick={add}>
            <Plus size={14} /> Add a branch
          </Button>
        </div>
      )}
    </div>
  );
}

/** Names with values, in the order of the document. */
function KeyValues({ field, place, label }: { field: Field; place: Place; label: string }): ReactElement {
  const { readOnly } = useFormServices();
  const additional = field.variants.find((variant) => variant.types.has("object"))?.schema.additionalProperties ?? field.schema.additionalProperties;
  const inner = { ...fieldOf(typeof additional === "object" ? looseValue(additional) : {}, place.root, field.template) };
  const value = place.value ?? "{}";
  if (kindOf(value) === "array") return <NamedList place={place} label={label} template={field.template} />;
  if (kindOf(value) !== "object") return <JsonArea label={label} place={place} />;
  const entries = entriesOf(value);
  const rename = (from: string, to: string) => {
    if (to === from || memberText(value, to) !== undefined) return;
    const members = entries.map(({ key, text }) => `${JSON.stringify(String(key) === from ? to : key)}: ${text}`);
    place.set(`{${members.join(", ")}}`);
  };
  const add = () => {
    let name = "name";
    for (let number = 2; memberText(value, name) !== undefined; number += 1) name = `name${number}`;
    place.set(setAt(value, [name], '""'));
  };
  return (
    <div className="rows" role="group" aria-label={label}>
      {entries.map(({ key }, index) => (
        <div key={index} className="pair">
          <NameInput name={String(key)} label={`${label}: name ${index + 1}`} onRename={(to) => rename(String(key), to)} />
          <AnyValue
            id={`${formatPointer(place.pointer)}/${index}`}
            title={`${label}: value of ${key}`}
            field={inner}
            place={place.at(String(key))}
            describedBy={undefined}
            invalid={place.problems.some(({ pointer, severity }) => severity === "error" && pointer === formatPointer([...place.pointer, key]))}
          />
          {!readOnly && <IconButton label={`Remove ${key}`} icon={<Trash2 size={14} />} small onClick={() => place.at(String(key)).set(undefined)} />}
        </div>
      ))}
      {!readOnly && (
        <div>
          <Button small look="quiet" onClick={add}>
            <Plus size={14} /> Add
          </Button>
        </div>
      )}
    </div>
  );
}

/** Several scalar types are one field for any value. */
function looseValue(schema: JsonSchema): JsonSchema {
  return schema.anyOf ? {} : schema;
}

/** `[{name, value}]`, the other spelling of names with values. */
function NamedList({ place, label, template }: { place: Place; label: string; template: boolean }): ReactElement {
  const { readOnly } = useFormServices();
  const value = place.value ?? "[]";
  const field = fieldOf({}, {}, template);
  return (
    <div className="rows" role="group" aria-label={label}>
      {entriesOf(value).map(({ key, text }) => {
        const name = memberText(text, "name");
        return (
          <div key={key} className="pair">
            <NameInput
              name={name === undefined ? "" : shownScalar(name)}
              label={`${label}: name ${Number(key) + 1}`}
              onRename={(to) => place.at(String(key)).at("name").set(JSON.stringify(to))}
            />
            <AnyValue id={`${formatPointer(place.pointer)}/${key}`} title={`${label}: value ${Number(key) + 1}`} field={field} place={place.at(String(key)).at("value")} describedBy={undefined} invalid={false} />
            {!readOnly && <IconButton label={`Remove ${label} ${Number(key) + 1}`} icon={<Trash2 size={14} />} small onClick={() => place.at(String(key)).set(undefined)} />}
          </div>
        );
      })}
      {!readOnly && (
        <div>
          <Button small look="quiet" onClick={() => place.set(setAt(value, ["-"], '{"name": "", "value": ""}'))}>
            <Plus size={14} /> Add
          </Button>
        </div>
      )}
    </div>
  );
}

function NameInput({ id, name, label, onRename }: { id?: string; name: string; label: string; onRename: (to: string) => void }): ReactElement {
  const { readOnly } = useFormServices();
  const [typed, setTyped] = useState<string | null>(null);
  return (
    <input
      id={id}
      className="input mono"
      aria-label={label}
      value={typed ?? name}
      readOnly={readOnly}
      autoComplete="off"
      spellCheck={false}
      onChange={(event) => setTyped(event.target.value)}
      onBlur={() => {
        if (typed !== null && typed !== "") onRename(typed);
        setTyped(null);
      }}
      onKeyDown={(event) => {
        if (event.key === "Enter") event.currentTarget.blur();
      }}
    />
  );
}

type ValueKind = "text" | "number" | "boolean" | "json";

const KIND_TITLES: Record<ValueKind, string> = { text: "Text", number: "Number", boolean: "Yes/no", json: "JSON" };

/** A value of any kind: text with expressions, a number, yes or no, or JSON as it is written. */
function AnyValue({ id, title, field, place, describedBy, invalid }: ControlProps): ReactElement {
  const { readOnly } = useFormServices();
  const kind = kindFor(place.value);
  const change = (wanted: ValueKind) => {
    const shown = editedText(place.value);
    if (wanted === "text") place.set(JSON.stringify(shown));
    else if (wanted === "number") place.set(isNumberText(shown) ? shown : "0");
    else if (wanted === "boolean") place.set(shown === "true" ? "true" : "false");
    else place.set(kind === "text" && isJson(shown) ? shown : kind === "text" && shown === "" ? "{}" : (place.value ?? "{}"));
  };
  const label = title;
  return (
    <div className="with-kind">
      {kind === "json" ? (
        <JsonArea id={id} label={label} place={place} />
      ) : kind === "number" ? (
        <NumberControl id={id} title={title} field={{ ...field, types: new Set(["number"]) }} place={place} describedBy={describedBy} invalid={invalid} />
      ) : kind === "boolean" ? (
        <select id={id} aria-label={label} className="input" disabled={readOnly} value={place.value} onChange={(event) => place.set(event.target.value)}>
          <option value="true">yes</option>
          <option value="false">no</option>
        </select>
      ) : (
        <TemplateField
          id={id}
          label={label}
          value={editedText(place.value)}
          onChange={(typed) => place.set(JSON.stringify(typed))}
          placeholder={field.ui.placeholder}
          describedBy={describedBy}
          invalid={invalid}
        />
      )}
      <select className="input" aria-label={`${label}: kind`} value={kind} disabled={readOnly} onChange={(event) => change(event.target.value as ValueKind)}>
        {Object.entries(KIND_TITLES).map(([value, text]) => (
          <option key={value} value={value}>
            {text}
          </option>
        ))}
      </select>
    </div>
  );
}

function kindFor(value: string | undefined): ValueKind {
  if (value === undefined) return "text";
  const kind = kindOf(value);
  return kind === "string" ? "text" : kind === "number" || kind === "boolean" ? kind : "json";
}

function isJson(text: string): boolean {
  try {
    scanDocument(text);
    return true;
  } catch {
    return false;
  }
}

/** JSON as text. What is not JSON yet stays in the field and is not written. */
export function JsonArea({ id, label, place }: { id?: string; label: string; place: Pick<Place, "value" | "set"> }): ReactElement {
  const { readOnly } = useFormServices();
  const [typed, setTyped] = useState<string | null>(null);
  const shown = typed ?? prettyText(place.value ?? "null");
  const problem = typed === null ? null : jsonProblem(typed);
  return (
    <div>
      <textarea
        id={id}
        className="input mono"
        aria-label={label}
        rows={Math.min(12, Math.max(2, shown.split("\n").length))}
        value={shown}
        readOnly={readOnly}
        spellCheck={false}
        autoComplete="off"
        aria-invalid={problem !== null || undefined}
        onChange={(event) => {
          setTyped(event.target.value);
          if (jsonProblem(event.target.value) === null) place.set(event.target.value.trim());
        }}
        onBlur={() => problem === null && setTyped(null)}
      />
      {problem && <p className="field-problem">{problem}</p>}
    </div>
  );
}

/** Why a text is not JSON; null if it is. */
export function jsonProblem(text: string): string | null {
  try {
    scanDocument(text);
    return null;
  } catch (failure) {
    return `This is not JSON: ${(failure as Error).message}`;
  }
}
