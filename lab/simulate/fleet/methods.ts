import type { ServingPolicyName } from '../../baselines/serving-policies.ts'
import type { ModeName } from '../scenario/mode-name.ts'
import type { Kind } from './trace-day.ts'

/** Groups of boards that compute two layers and the head of the cloud's model fast enough for HAT: private requests are theirs. */
export const splitting: readonly string[] = ['agx-orin', 'orin-nx']

/** A way to serve the fleet. */
export interface Method {
  readonly name: string
  /** Boards answer by these; phones, which cannot compute a part of the cloud's model, ask the cloud in place of the mode hat. */
  readonly modes: Readonly<Record<Kind, ModeName>>
  /** Of the cloud's engine. */
  readonly policy: ServingPolicyName
  /** Settings of the modes: Brim's own, or the paper's. */
  readonly hat: Readonly<Record<string, unknown>>
  readonly pice: Readonly<Record<string, unknown>>
  readonly disco: Readonly<Record<string, unknown>>
  /** Undefined: no request comes to the cloud. */
  readonly needsCloud: boolean
}

const all = (mode: ModeName): Method['modes'] => ({ private: mode, long: mode, cheap: mode })
const paper = {
  policy: 'chunked',
  hat: {},
  // Answers count when they are complete, and devices are given as long as they take.
  pice: { readsAlong: false, begins: false },
  disco: { autoPatienceS: null },
  needsCloud: true,
} as const
/** Options of Brim that the paper does not have. */
const hat = { wire: 'int8', deviceWeights: 'int4', threshold: null, draftLimit: 15, growingChunks: true } as const
const disco = { share: 0.5, autoPatienceS: 2, sketches: true, splitting } as const
const own = { policy: 'tokenflow', hat, pice: {}, disco, needsCloud: true } as const
const brim = { private: 'auto-private', long: 'auto', cheap: 'auto' } as const

/** Whether private text stays on the device. */
export const keepsText = ({ modes }: Method): boolean => ['hat', 'auto-private', 'local'].includes(modes.private)

/** Brim, each paper alone, and none of them. Clouds of today take prompts in chunks, which stands for all that do not say else. */
export const methods: readonly Method[] = [
  { ...own, name: 'Brim', modes: brim },
  { ...paper, name: 'HAT alone', modes: all('hat') },
  { ...paper, name: 'PICE alone', modes: all('pice') },
  { ...paper, name: 'DiSCo alone', modes: all('auto') },
  { ...paper, name: 'TokenFlow alone', modes: all('cloud'), policy: 'tokenflow' },
  { ...paper, name: 'cloud only', modes: all('cloud'), policy: 'fcfs' },
  { ...paper, name: 'device only', modes: all('local'), needsCloud: false },
]

/** Brim without one of its parts. What is private stays on the device where there is no HAT. */
export const ablations: readonly Method[] = [
  { ...own, name: 'Brim without HAT', modes: { ...brim, private: 'local' }, disco: { ...disco, splitting: [] } },
  { ...own, name: 'Brim without sketches', modes: brim, disco: { ...disco, sketches: false } },
  { ...own, name: 'Brim without DiSCo', modes: { private: 'hat', long: 'cloud', cheap: 'cloud' } },
  { ...own, name: 'Brim without TokenFlow', modes: brim, policy: 'chunked' },
  { ...own, name: 'Brim without int8 and int4', modes: brim, hat: { ...hat, wire: 'fp16c', deviceWeights: 'fp16' } },
]
