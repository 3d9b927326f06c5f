import { type Clock, systemClock } from '../base/clock.ts'
import type { Io } from '../base/io.ts'

/** Says on stderr how far long work is. */
export interface Progress {
  /** @param share 0 … 1 */
  update(label: string, share: number): void
  /** Leaves the terminal on a fresh line. */
  end(): void
}

const barWidth = 30

/** A log line so often: quick work leaves no trace, long work does not flood. */
const lineEveryMs = 2_000

/** A bar that is redrawn in place where stderr is a terminal, a line now and then where it is not. */
export function showProgress(io: Io, clock: Clock = systemClock): Progress {
  let drawn = ''
  let saidMs = clock.nowMs()
  const draw = (line: string) => {
    if (line === drawn) return
    // Every piece ends its line, so a redraw climbs back over the last one.
    io.err(`${drawn === '' ? '' : '\u001b[1A\u001b[2K'}${line}`)
    drawn = line
  }
  return {
    update(label, share) {
      const percent = `${Math.floor(100 * share)} %`
      if (io.errIsTty) {
        const filled = Math.round(barWidth * share)
        draw(`${'█'.repeat(filled)}${'░'.repeat(barWidth - filled)} ${percent.padStart(5)} ${label}`)
      } else if (clock.nowMs() - saidMs >= lineEveryMs) {
        saidMs = clock.nowMs()
        io.err(`${percent} ${label}`)
      }
    },
    end() {
      drawn = ''
    },
  }
}
