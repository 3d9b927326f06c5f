import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import { orThrow } from '../../core/kit/base/errors.ts'
import { writePrivate } from '../../core/kit/base/private-file.ts'
import { type Enrolment, readEnrolments, replacePin } from './enrolment.ts'
import { identityDirOf } from './key-file.ts'

/** The TLS keys that the device accepts of one bridge. */
export interface BridgePins {
  /** SHA-256 of each public key; empty: the authorities of this system decide. */
  readonly accepted: readonly string[]
  /**
   * What the bridge has said, over a connection with an accepted key: the key that it shows, then those that it will show.
   * @returns whether this changed what is accepted
   * @throws BrimError TARGET_UNWRITABLE
   */
  learn(pins: readonly string[]): boolean
}

/** A file of its own, beside enrolments.json: the last release reads that one, and knows no further pins. */
const nextPinsFileOf = (stateDir: string) => join(identityDirOf(stateDir), 'next-pins.json')
/** By the bridge's URL. An entry is void once the enrolment has another pin than one of `of`: the device has enrolled again. */
const NextPins = z.record(z.string(), z.object({ of: z.array(z.string()), next: z.array(z.string()) }))

/** @throws BrimError IDENTITY_INVALID */
export function openBridgePins(stateDir: string, { url, pin }: Pick<Enrolment, 'url' | 'pin'>): BridgePins {
  if (pin === undefined) return { accepted: [], learn: () => false }
  const stored = readNextPins(stateDir)[url]
  let accepted = stored?.of.includes(pin) ? [...new Set([pin, ...stored.next])] : [pin]
  return {
    get accepted() {
      return accepted
    },
    learn(pins) {
      const [former, [present]] = [accepted[0]!, pins]
      // Behind a proxy that ends TLS, the device sees another key than the bridge has.
      if (present === undefined || !accepted.includes(present) || pins.join() === accepted.join()) return false
      // First what comes next: a power cut between the two leaves every key accepted that may be shown.
      const entry = { of: [former, present], next: pins }
      writePrivate(nextPinsFileOf(stateDir), `${JSON.stringify({ ...readNextPins(stateDir), [url]: entry }, null, 2)}\n`)
      if (present !== former) replacePin(stateDir, url, present)
      accepted = [...pins]
      return true
    },
  }
}

/** The enrolments with every key that each accepts. @throws BrimError IDENTITY_INVALID */
export const readPinnedEnrolments = (stateDir: string): (Enrolment & { readonly pins: readonly string[] })[] =>
  readEnrolments(stateDir).map((enrolment) => ({ ...enrolment, pins: openBridgePins(stateDir, enrolment).accepted }))

/** @throws BrimError IDENTITY_INVALID */
function readNextPins(stateDir: string): z.infer<typeof NextPins> {
  const path = nextPinsFileOf(stateDir)
  if (!existsSync(path)) return {}
  return orThrow(
    () => NextPins.parse(JSON.parse(readFileSync(path, 'utf8'))),
    'IDENTITY_INVALID',
    `${path} cannot be read`,
    'delete it: the bridge tells its next keys again',
  )
}
