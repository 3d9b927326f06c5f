import { roundTripOf } from './draft-ahead-steps.ts'
import type { HatConditions, HatRules } from './hat-steps.ts'
import type { MeasuredLink } from './in-flight.ts'
import { paddedVerification } from './padded-rows.ts'

interface SessionTerms extends Pick<HatConditions, 'chunkTokens' | 'frameTokens' | 'draftLimit'> {
  readonly rates: MeasuredLink & Pick<HatConditions, 'downBytesPerS' | 'verificationS'>
}

/** What the conditions of an answer follow from. */
export interface ConditionSources {
  session(): SessionTerms
  readonly speed: Pick<HatConditions, 'draftStepS' | 'aheadStepS' | 'prefillTokensPerS'>
  readonly rules: Pick<HatRules, 'draftLimit' | 'bytesPerToken'>
  /** Whether verifications of the current session are padded. */
  isPadded(): boolean
  /** Whether frames of prompts have one length, too. Absent: they do not. */
  readonly padsPrompts?: boolean | undefined
  mayDraftAhead(): boolean
}

/** The conditions at any time, as they are then; only the lengths of padded frames are those of the session's beginning. */
export function conditionsOf({ session, speed, rules, isPadded, padsPrompts, mayDraftAhead }: ConditionSources): HatConditions {
  let padded: { readonly session: SessionTerms; readonly rows: number; readonly promptRows: number } | undefined
  const padding = () => {
    const current = session()
    if (!isPadded()) return undefined
    if (padded?.session !== current) {
      const { draftLimit, rates, chunkTokens, frameTokens } = current
      const rows = paddedVerification(Math.min(rules.draftLimit, draftLimit), roundTripOf(1, rules.bytesPerToken, rates))
      padded = { session: current, rows, promptRows: Math.min(chunkTokens, frameTokens) }
    }
    return padded
  }
  padding()
  return {
    get chunkTokens() {
      return session().chunkTokens
    },
    get frameTokens() {
      return session().frameTokens
    },
    get draftLimit() {
      return session().draftLimit
    },
    get upBytesPerS() {
      return session().rates.upBytesPerS
    },
    get downBytesPerS() {
      return session().rates.downBytesPerS
    },
    get rttS() {
      return session().rates.rttS
    },
    get cloudS() {
      return session().rates.cloudS
    },
    get verificationS() {
      return session().rates.verificationS
    },
    get prefillTokensPerS() {
      return speed.prefillTokensPerS
    },
    get draftStepS() {
      return speed.draftStepS
    },
    get aheadStepS() {
      return speed.aheadStepS
    },
    get paddedRows() {
      return padding()?.rows
    },
    get paddedPromptRows() {
      return padsPrompts ? padding()?.promptRows : undefined
    },
    get mayDraftAhead() {
      return mayDraftAhead()
    },
  }
}
