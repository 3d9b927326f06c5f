/** What a command may touch of its process: results go to `out`, all else to `err`. */
export interface Io {
  out(text: string): void
  err(text: string): void
  readonly outIsTty: boolean
  readonly errIsTty: boolean
  readonly env: Readonly<Record<string, string | undefined>>
  /** Aborted on the first SIGINT or SIGTERM. */
  readonly signal: AbortSignal
}
