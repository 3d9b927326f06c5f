import type { BridgeMode } from '../../../core/kit/base/answer-modes.ts'

interface Method {
  /** What decides whether the bridge answers a question or a small model on a device. */
  readonly route: 'bridge' | 'device' | 'length' | 'difficulty'
  /** How the bridge answers. */
  readonly mode: BridgeMode
  /** Options of `brim bridge run`; methods with the same ones use one bridge. */
  readonly bridge: readonly string[]
}

const table = {
  'cloud-only': { route: 'bridge', mode: 'full', bridge: [] },
  'edge-only': { route: 'device', mode: 'full', bridge: [] },
  'routing by length': { route: 'length', mode: 'full', bridge: [] },
  'routing by difficulty': { route: 'difficulty', mode: 'full', bridge: [] },
  'PICE static': { route: 'bridge', mode: 'auto', bridge: ['--static-sketches'] },
  PICE: { route: 'bridge', mode: 'auto', bridge: [] },
} as const satisfies Record<string, Method>

export type MethodName = keyof typeof table
export const methods: Readonly<Record<MethodName, Method>> = table
export const methodNames = Object.keys(table) as MethodName[]
