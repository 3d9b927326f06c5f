import { type Clock, systemClock } from '../kit/base/clock.ts'
import type { Io } from '../kit/base/io.ts'
import { visibleLine } from '../kit/base/visible-text.ts'

/** Progress of long work, on stderr. */
export interface ProgressLine {
  /** @param share 0 … 1 */
  update(label: string, share: number): void
  /** Starts a new line. */
  end(): void
}

const barWidth = 30

/** Interval of lines without a terminal: short work prints none. */
const lineEveryMs = 2_000

/** A bar that is redrawn in place on a terminal; elsewhere a line every 2 s. */
export function showProgress(io: Io, clock: Clock = systemClock): ProgressLine {
  let drawn = ''
  let printedMs = clock.nowMs()
  const draw = (line: string) => {
    if (line === drawn) return
    // Each piece ends its line: a redraw moves up and clears the last one.
    io.raw.err(`${drawn === '' ? '' : '\u001b[1A\u001b[2K'}${visibleLine(line)}\n`)
    drawn = line
  }
  return {
    update(label, share) {
      const percent = `${Math.floor(100 * share)} %`
      if (io.errIsTty) {
        const filled = Math.round(barWidth * share)
        draw(`${'█'.repeat(filled)}${'░'.repeat(barWidth - filled)} ${percent.padStart(5)} ${label}`)
      } else if (clock.nowMs() - printedMs >= lineEveryMs) {
        printedMs = clock.nowMs()
        io.err(`${percent} ${label}`)
      }
    },
    end() {
      drawn = ''
    },
  }
}
