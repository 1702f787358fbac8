/** The application: loaded by index.html. */

import { StrictMode } from "react";
import { createRoot } from "react-dom/client";

import { takeKeyFromAddress } from "../api/key";
import { applyTheme, giveNonceToLibraries } from "../ui/theme";
import "../ui/theme.css";
import "../ui/controls.css";
import "../ui/forms/forms.css";
import "./shell/shell.css";
import { App } from "./shell/App";

takeKeyFromAddress();
applyTheme();
giveNonceToLibraries();
createRoot(document.getElementById("root")!).render(
  <StrictMode>
    <App />
  </StrictMode>,
);
