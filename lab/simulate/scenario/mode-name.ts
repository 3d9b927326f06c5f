interface ModeNeeds {
  /** A server is a commercial API, or the cloud. */
  readonly parts: readonly ('cloud' | 'server' | 'devices')[]
  /** Whether it answers devices alone; the others serve clients of the cloud, too. */
  readonly devicesAsk?: true
}

const split = { parts: ['cloud', 'devices'], devicesAsk: true } as const
const sketches = { parts: ['cloud', 'devices'] } as const
const twoSided = { parts: ['server', 'devices'], devicesAsk: true } as const

/** Ways of answering, and what they need in a scenario; `world/mode.ts` is their interface. */
export const modeNeeds = {
  cloud: { parts: ['server'] },
  local: { parts: ['devices'] },
  hat: split,
  'u-shape': split,
  'u-shape-lean': split,
  'u-medusa': split,
  'u-sarathi': split,
  pice: sketches,
  routing: sketches,
  static: sketches,
  race: twoSided,
  cheap: twoSided,
  auto: twoSided,
  private: split,
  'auto-private': split,
} as const satisfies Record<string, ModeNeeds>
export type ModeName = keyof typeof modeNeeds
export const modeNames = Object.keys(modeNeeds) as [ModeName, ...ModeName[]]

/** The name of a part of the workload. */
export const partName = ({ name, mode }: { readonly name?: string | undefined; readonly mode: string }): string => name ?? mode
