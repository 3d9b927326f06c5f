/** Ways of answering; `world/mode.ts` is their interface. */
export const modeNames = [
  'cloud',
  'local',
  'hat',
  'u-shape',
  'u-shape-lean',
  'u-medusa',
  'u-sarathi',
  'pice',
  'routing',
  'static',
  'race',
  'cheap',
  'auto',
  'private',
] as const
export type ModeName = (typeof modeNames)[number]
