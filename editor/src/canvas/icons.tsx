/** Icons of node types: those that types name, else the initials of the title. */

import {
  Bell, Box, Braces, Bot, Calendar, Clock, Code, Database, FileText, Flag, Globe, Hammer, Key, List, Lock, Mail, MessageSquare, Pencil, Play, Repeat, Search, Inbox, TriangleAlert,
  Send, Server, Split, Table, Timer, Upload, User, Webhook, Workflow, Zap, Filter, Download, Calculator, Tag, Radio, ArrowDownUp, Scissors, Copy, Group, Merge, OctagonX, Regex, Hash, Sheet, FileCode, CodeXml, Link, Puzzle, Reply, type LucideIcon,
} from "lucide-react";
import type { ReactElement } from "react";

const ICONS: Record<string, LucideIcon> = {
  bell: Bell, box: Box, braces: Braces, bot: Bot, calendar: Calendar, clock: Clock, code: Code, database: Database, file: FileText, flag: Flag, globe: Globe,
  hammer: Hammer, inbox: Inbox, alert: TriangleAlert, key: Key, list: List, lock: Lock, mail: Mail, message: MessageSquare, pencil: Pencil, play: Play, repeat: Repeat, search: Search, send: Send,
  server: Server, split: Split, table: Table, timer: Timer, upload: Upload, user: User, webhook: Webhook, workflow: Workflow, zap: Zap, filter: Filter,
  download: Download, calculator: Calculator, tag: Tag, radio: Radio, sort: ArrowDownUp, scissors: Scissors, copy: Copy, group: Group,
  merge: Merge, stop: OctagonX, regex: Regex, hash: Hash, sheet: Sheet, "file-code": FileCode, "code-xml": CodeXml, link: Link, puzzle: Puzzle, reply: Reply,
};

export function TypeIcon({ icon, title, size = 18 }: { icon: string | null | undefined; title: string; size?: number }): ReactElement {
  const Icon = icon == null ? undefined : ICONS[icon];
  if (Icon !== undefined) return <Icon size={size} aria-hidden />;
  return (
    <span className="initials" aria-hidden>
      {initials(title)}
    </span>
  );
}

function initials(title: string): string {
  const words = title.replace(/([a-z])([A-Z])/g, "$1 $2").split(/[\s_-]+/).filter(Boolean);
  return ((words[0]?.[0] ?? "?") + (words[1]?.[0] ?? "")).toUpperCase();
}
