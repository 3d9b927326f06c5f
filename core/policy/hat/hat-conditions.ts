import type { HatConditions } from './hat-steps.ts'
import type { MeasuredLink } from './in-flight.ts'

/** What a session allows. */
interface SessionTerms extends Pick<HatConditions, 'chunkTokens' | 'frameTokens' | 'draftLimit'> {
  readonly rates: MeasuredLink & Pick<HatConditions, 'downBytesPerS' | 'verificationS'>
}

/** What the conditions of an answer follow from. */
export interface ConditionSources {
  /** The current session. */
  session(): SessionTerms
  readonly speed: Pick<HatConditions, 'draftStepS' | 'aheadStepS'>
  /** Rows that verifications of the current session are padded to. */
  paddedRows(): number | undefined
  mayDraftAhead(): boolean
}

/** The conditions at any time, as they are then. */
export function conditionsOf({ session, speed, paddedRows, mayDraftAhead }: ConditionSources): HatConditions {
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
    get draftStepS() {
      return speed.draftStepS
    },
    get aheadStepS() {
      return speed.aheadStepS
    },
    get paddedRows() {
      return paddedRows()
    },
    get mayDraftAhead() {
      return mayDraftAhead()
    },
  }
}
