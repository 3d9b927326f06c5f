/** The parts of the process that a command uses. Results go to `out`, all else to `err`. */
export interface Io {
  /** Lines of a result on stdout; a missing line end is added. Control characters are shown as escapes, as by `write` and `err`. */
  out(text: string): void
  /** Text on stdout without a line end, for results that stream. */
  write(text: string): void
  /** One line on stderr. */
  err(text: string): void
  /** Unchanged text, with escape sequences of our own. What others sent must have passed `visibleLine`. */
  readonly raw: { out(text: string): void; err(text: string): void }
  stdin(): Promise<string>
  readonly outIsTty: boolean
  readonly errIsTty: boolean
  /** Height of the terminal in lines; absent without one. */
  readonly outRows?: number | undefined
  readonly env: Readonly<Record<string, string | undefined>>
  /** Aborted on the first SIGINT or SIGTERM; `isTermination` tells which. A second one ends the process. */
  readonly signal: AbortSignal
}
