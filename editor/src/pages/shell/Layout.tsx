/** The bar at the top, and the page below it. */

import { LogOut, Monitor, Moon, Settings, Sun, WifiOff } from "lucide-react";
import { Suspense, useEffect, useRef, useState, type ReactElement } from "react";
import { NavLink, Outlet, useLocation } from "react-router";

import { IconButton } from "../../ui/Button";
import { Menu } from "../../ui/Menu";
import { Notice, Skeleton } from "../../ui/Notice";
import { chooseTheme, currentTheme, type Theme } from "../../ui/theme";
import { useLink } from "../data";
import { signOut, useSession } from "../session";
import { Logo } from "./Logo";

const LINK_WORDS = { connecting: "connecting", live: "live", lost: "connecting again" } as const;

export function Layout(): ReactElement {
  const { pathname } = useLocation();
  const main = useRef<HTMLElement>(null);
  const first = useRef(true);
  useEffect(() => {
    // A new page is read from its beginning; the first one leaves the focus where the browser has it.
    if (!first.current) main.current?.focus({ preventScroll: true });
    first.current = false;
    window.scrollTo(0, 0);
  }, [pathname]);
  return (
    <div className="layout">
      <TopBar />
      <OfflineBanner />
      <main ref={main} tabIndex={-1} className="page">
        <Suspense fallback={<Skeleton lines={6} />}>
          <Outlet />
        </Suspense>
      </main>
    </div>
  );
}

function TopBar(): ReactElement {
  return (
    <header className="top">
      <NavLink to="/" className="brand" aria-label="anabranch, workflows">
        <Logo />
        <span>anabranch</span>
      </NavLink>
      <nav aria-label="Pages">
        <NavLink to="/" end>
          Workflows
        </NavLink>
        <NavLink to="/runs">Runs</NavLink>
        <NavLink to="/schedules">Triggers</NavLink>
        <NavLink to="/settings">Settings</NavLink>
        <a href="/docs">API</a>
      </nav>
      <span className="grow" />
      <LinkState />
      <Account />
    </header>
  );
}

export function LinkState(): ReactElement {
  const link = useLink();
  return (
    <span id="link" className="link-state" data-state={link} role="status">
      {LINK_WORDS[link]}
    </span>
  );
}

const THEMES: readonly [Theme, string, ReactElement][] = [
  ["system", "Colours of the system", <Monitor key="m" size={16} />],
  ["light", "Light", <Sun key="s" size={16} />],
  ["dark", "Dark", <Moon key="d" size={16} />],
];

export function Account(): ReactElement {
  const me = useSession((session) => session.me);
  const [theme, setTheme] = useState(currentTheme);
  return (
    <Menu
      trigger={<IconButton label="Account and colours" icon={<Settings size={16} />} />}
      entries={[
        ...THEMES.map(([value, label, icon]) => ({
          label: theme === value ? `${label} ✓` : label,
          icon,
          onSelect: () => {
            chooseTheme(value);
            setTheme(value);
          },
        })),
        null,
        { label: me === null ? "Sign out" : `Sign out (${me.role} of ${me.tenant})`, icon: <LogOut size={16} />, onSelect: () => signOut(null) },
      ]}
    />
  );
}

export function OfflineBanner(): ReactElement | null {
  const online = useSession((session) => session.online);
  if (online) return null;
  return (
    <div className="banner" id="alarm">
      <Notice kind="warning" action={<WifiOff size={16} aria-hidden />}>
        The server does not answer. This page goes on trying; what you edit is kept here.
      </Notice>
    </div>
  );
}
