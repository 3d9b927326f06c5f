/** What a command may touch of its process: results go to `out`, all else to `err`. */
export interface Io {
  /** One line (or several) of result on stdout; the line end is added where it is missing. */
  out(text: string): void
  /** A piece of a result on stdout, as it is: for text that streams. */
  write(text: string): void
  /** One line on stderr. */
  err(text: string): void
  /** All of stdin. */
  stdin(): Promise<string>
  readonly outIsTty: boolean
  readonly errIsTty: boolean
  /** Lines of the terminal, where stdout is one. */
  readonly outRows?: number | undefined
  readonly env: Readonly<Record<string, string | undefined>>
  /** Aborted on the first SIGINT or SIGTERM. */
  readonly signal: AbortSignal
}
