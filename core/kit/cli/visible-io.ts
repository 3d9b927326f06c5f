import type { Io } from '../base/io.ts'
import { visibleText } from '../base/visible-text.ts'

/** The same Io for commands that print what others sent: only `raw` passes control characters on. */
export const visibleIo = (io: Io): Io => ({
  ...io,
  get outRows() {
    return io.outRows
  },
  out: (text) => io.out(visibleText(text)),
  write: (text) => io.write(visibleText(text)),
  err: (text) => io.err(visibleText(text)),
})
