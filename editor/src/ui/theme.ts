/** Light or dark: as the machine is set, unless the person chose; and the nonce for libraries that add styles. */

import { setNonce } from "get-nonce";

export type Theme = "system" | "light" | "dark";

const KEY = "anabranch.theme";

export function currentTheme(): Theme {
  const kept = localStorage.getItem(KEY);
  return kept === "light" || kept === "dark" ? kept : "system";
}

export function chooseTheme(theme: Theme): void {
  if (theme === "system") localStorage.removeItem(KEY);
  else localStorage.setItem(KEY, theme);
  applyTheme();
}

export function applyTheme(): void {
  const theme = currentTheme();
  if (theme === "system") document.documentElement.removeAttribute("data-theme");
  else document.documentElement.setAttribute("data-theme", theme);
}

/** The nonce of this answer of the server: style elements without it are refused by the page's policy. */
export function pageNonce(): string {
  return document.querySelector<HTMLMetaElement>("meta[property=csp-nonce]")?.nonce ?? "";
}

export function giveNonceToLibraries(): void {
  setNonce(pageNonce());
}
