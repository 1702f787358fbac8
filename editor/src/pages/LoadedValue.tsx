/** A value of a run; one that was too large to be sent with the rest says its size, and is loaded when somebody asks. */

import { useQuery } from "@tanstack/react-query";
import { useId, useState, type ReactElement } from "react";

import { callText } from "../api/client";
import { largeOf, pathExpression, type Large } from "../json";
import { Button } from "../ui/Button";
import { Problem, Skeleton } from "../ui/Notice";
import { ValueViewer } from "../ui/ValueViewer";

interface LoadedValueProps {
  text: string;
  label: string;
  root?: string | null;
  /** The same with everything in it, as source text: its integers may be of any size. */
  load: (signal: AbortSignal) => Promise<string>;
}

export function LoadedValue({ text, label, root = null, load }: LoadedValueProps): ReactElement {
  const large = largeOf(text);
  return large === null ? <ValueViewer text={text} label={label} root={root} /> : <LargeValue key={`${label} ${text}`} large={large} label={label} root={root} load={load} />;
}

interface Wanted {
  readonly name: string;
  readonly root: string | null;
  readonly load: (signal: AbortSignal) => Promise<string>;
}

/** More parts are counted, not listed. */
const PARTS_LISTED_MAX = 20;

function LargeValue({ large: { bytes, parts }, label, root, load }: { large: Large; label: string; root: string | null; load: LoadedValueProps["load"] }): ReactElement {
  const [wanted, setWanted] = useState<Wanted | null>(null);
  const all: Wanted = { name: label, root, load };
  return (
    <div className="stack">
      <div className="row row-wrap">
        <span className="grow">{sizeText(bytes)}: too large to be shown unasked.</span>
        <Button small disabled={wanted?.name === label} onClick={() => setWanted(all)}>
          Load
        </Button>
      </div>
      {(parts.length > 1 || (parts[0]?.path.length ?? 0) > 0) && (
        <ul className="large-parts">
          {parts.slice(0, PARTS_LISTED_MAX).map(({ path, sha256, bytes: size }) => {
            const name = pathExpression(path, root ?? "value");
            const part: Wanted = {
              name,
              root: root === null ? null : name,
              load: async (signal) => (await callText("get_value", { path: { sha256 }, signal })).text,
            };
            return (
              <li key={name} className="row row-wrap">
                <code className="grow clip">{name}</code>
                <span className="faint">{sizeText(size)}</span>
                <Button small aria-label={`Load ${name}`} disabled={wanted?.name === name} onClick={() => setWanted(part)}>
                  Load
                </Button>
              </li>
            );
          })}
          {parts.length > PARTS_LISTED_MAX && <li className="faint">and {(parts.length - PARTS_LISTED_MAX).toLocaleString("en")} more</li>}
        </ul>
      )}
      {wanted !== null && <Fetched key={wanted.name} wanted={wanted} />}
    </div>
  );
}

function Fetched({ wanted: { name, root, load } }: { wanted: Wanted }): ReactElement {
  const read = useQuery({ queryKey: ["large-value", useId()], queryFn: ({ signal }) => load(signal), staleTime: Infinity, gcTime: 0 });
  if (read.error) return <Problem error={read.error} onRetry={() => void read.refetch()} />;
  return read.data === undefined ? <Skeleton lines={2} /> : <ValueViewer text={read.data} label={name} root={root} />;
}

/** 70000 → "70 kB", 3_400_000 → "3.4 MB". */
function sizeText(bytes: number): string {
  return bytes < 1_000_000 ? `${Math.round(bytes / 1_000)} kB` : `${(bytes / 1_000_000).toFixed(1)} MB`;
}
