import { defaultDraftLimit } from '../../../core/policy/hat/draft-gain.ts'
import { stepDefaults } from '../../../core/policy/serving/step-defaults.ts'
import type { ModeName } from '../scenario/mode-name.ts'
import { combinations } from '../scenario/scenario-file.ts'
import { type Options, type SettingName, type Settings, type SettingValue, settingsText } from './settings.ts'

/** Ways of answering: the agent's modes, and the bridge's sketches. */
export const wayNames = ['cloud', 'private', 'local', 'fast', 'cheap', 'auto', 'sketches'] as const

/** One way of using the hardware. */
export interface FleetCandidate {
  readonly way: (typeof wayNames)[number]
  readonly name: string
  readonly mode: ModeName
  /** Whether questions stay on the device. */
  readonly isPrivate: boolean
  /** Options of agent and bridge that choose the way. */
  readonly agent: Options
  readonly bridge: Options
  readonly settings: Settings
  /** What the options do not say. */
  readonly note?: string
}

/** A bridge's default of --chunk-tokens, where it fits. */
const firstChunk = 128
const isHat = ({ mode }: FleetCandidate): boolean => mode === 'hat'
const usesBridge = ({ mode }: FleetCandidate): boolean => mode !== 'local'
const base = { isPrivate: false, agent: {}, bridge: {}, settings: {} }
const shares = [0.2, 0.5, 0.8] as const
const atServer = { server: 'bridge' }

/** Ways of answering, with the defaults of agent and bridge for everything else. */
export const ways: readonly FleetCandidate[] = [
  { ...base, way: 'cloud', name: 'cloud', mode: 'cloud', agent: { mode: 'cloud', ...atServer } },
  { ...base, way: 'private', name: 'private (HAT)', mode: 'hat', isPrivate: true, agent: { mode: 'private' } },
  { ...base, way: 'local', name: 'local', mode: 'local', isPrivate: true, agent: { mode: 'local' } },
  { ...base, way: 'fast', name: 'fast', mode: 'race', agent: { mode: 'fast', ...atServer } },
  { ...base, way: 'cheap', name: 'cheap', mode: 'cheap', agent: { mode: 'cheap', ...atServer } },
  ...shares.map((budgetShare) =>
    withSettings({ ...base, way: 'auto', name: 'auto', mode: 'auto', agent: { mode: 'auto', ...atServer } }, { budgetShare }),
  ),
  {
    ...base,
    way: 'sketches',
    name: 'sketches (PICE)',
    mode: 'pice',
    note: 'Clients ask the bridge, not an agent, and state how fast they read (brim.tokens_per_s). Agents expand sketches.',
    bridge: { 'answer-mode': 'auto' },
  },
]

/** What is tried of the best so far, one after the other. */
export interface Refinement {
  readonly what: string
  /** @returns none where the way has no such settings */
  of(best: FleetCandidate): readonly FleetCandidate[]
}

export const refinements: readonly Refinement[] = [
  {
    what: 'steps of the bridge',
    of: (best) =>
      usesBridge(best)
        ? variants(best, { policy: ['decode-first', 'tokenflow'], stepRows: [512, 2_048], promptRows: [128, 512] })
        : [],
  },
  {
    what: 'chunks of prompts',
    of(best) {
      const rows = Number(settingsOf(best).stepRows)
      const sizes = isHat(best) ? [64, 128, 256, 512, 1_024].filter((tokens) => tokens < rows) : []
      return sizes.map((tokens) => withSettings(best, { maxChunk: tokens, firstChunk: Math.min(firstChunk, tokens) }))
    },
  },
  {
    what: 'drafts',
    of: (best) => (isHat(best) ? variants(best, { draftLimit: [2, 4, 7, defaultDraftLimit] }) : []),
  },
  {
    what: 'drafting ahead',
    of: (best) => (isHat(best) ? variants(best, { draftAhead: [false] }) : []),
  },
  {
    what: 'budgets',
    of(best) {
      const { budgetShare } = best.settings
      if (best.mode !== 'auto' || budgetShare === undefined) return []
      return variants(best, { budgetShare: [-0.1, 0.1].map((step) => Number((Number(budgetShare) + step).toFixed(2))) })
    },
  },
]

/** All settings that the way has: those of the candidate, and the defaults of agent and bridge. */
export function settingsOf(candidate: FleetCandidate): Settings {
  const { policy, rows: stepRows, promptRows } = stepDefaults
  const bridge = usesBridge(candidate) ? { policy, stepRows, promptRows } : {}
  const hat = isHat(candidate)
    ? {
        maxChunk: candidate.settings.stepRows ?? stepRows,
        firstChunk,
        draftLimit: defaultDraftLimit,
        draftAhead: true,
      }
    : {}
  return { ...bridge, ...hat, ...candidate.settings }
}

/** Every combination of these values but that which the best has. */
function variants(
  best: FleetCandidate,
  values: Readonly<Partial<Record<SettingName, readonly SettingValue[]>>>,
): FleetCandidate[] {
  const has = settingsOf(best)
  const differs = ([name, value]: [string, unknown]) => has[name as SettingName] !== value
  return combinations(values)
    .filter((settings) => Object.entries(settings).some(differs))
    .map((settings) => withSettings(best, settings))
}

/** Named by the settings that are not the defaults. */
function withSettings(candidate: FleetCandidate, changed: Settings): FleetCandidate {
  const settings = { ...candidate.settings, ...changed }
  const standard = settingsOf({ ...candidate, settings: {} })
  const own = Object.entries(settings).filter(([name, value]) => standard[name as SettingName] !== value)
  const [name] = candidate.name.split(': ')
  return { ...candidate, name: own.length === 0 ? name! : `${name}: ${settingsText(Object.fromEntries(own))}`, settings }
}
