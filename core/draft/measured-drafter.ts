import { DrafterChoice } from '../policy/hat/drafter-choice.ts'
import type { Drafter } from './drafter.ts'

/** Drafts by whichever of these is fastest in this session; the first until that is known. */
export function measuredDrafter(drafters: Readonly<Record<string, Drafter>>): Drafter {
  const all = Object.values(drafters)
  const choice = new DrafterChoice(Object.keys(drafters))
  return {
    next: (known, rows) => drafters[choice.name]!.next(known, rows),
    async catchUp(known) {
      for (const drafter of all) await drafter.catchUp(known)
    },
    gather(keep, rows) {
      for (const drafter of all) drafter.gather(keep, rows)
    },
    ended: (tokens, seconds) => choice.record(tokens, seconds),
    report: () => ({ chosen: choice.best, drafters: choice.records() }),
    release() {
      for (const drafter of all) drafter.release()
    },
  }
}
