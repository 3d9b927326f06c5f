export type SettingValue = string | number | boolean

interface SettingPlace {
  /** Part of a scenario, and its field. */
  readonly field: readonly ['cloud' | 'disco' | 'hat', string]
  /** Option of `brim agent run`. */
  readonly agent?: string
  /** Option of `brim bridge run`. */
  readonly bridge?: string
}

/** What may be set: its place in a scenario, and the options of the live system. */
const places = {
  policy: { field: ['cloud', 'policy'], bridge: 'serving-policy' },
  promptRows: { field: ['cloud', 'promptRows'], bridge: 'prompt-tokens' },
  stepRows: { field: ['cloud', 'stepRows'], bridge: 'token-budget' },
  maxChunk: { field: ['hat', 'maxChunkTokens'], bridge: 'frame-tokens' },
  firstChunk: { field: ['hat', 'chunkTokens'], bridge: 'chunk-tokens' },
  draftLimit: { field: ['hat', 'draftLimit'], agent: 'draft-limit', bridge: 'draft-limit' },
  draftAhead: { field: ['hat', 'draftAhead'], agent: 'draft-ahead' },
  budgetShare: { field: ['disco', 'share'], agent: 'budget-share' },
} as const satisfies Record<string, SettingPlace>

export type SettingName = keyof typeof places
/** Values by setting; an absent one has the default of agent and bridge. */
export type Settings = Readonly<Partial<Record<SettingName, SettingValue>>>
export type Options = Readonly<Record<string, SettingValue>>

const entriesOf = (settings: Settings): (readonly [SettingPlace, SettingValue])[] =>
  Object.entries(settings).map(([name, value]) => [places[name as SettingName], value])

/** The fields of a part of the scenario. */
export const fieldsOf = (part: SettingPlace['field'][0], settings: Settings): Options =>
  Object.fromEntries(entriesOf(settings).flatMap(([{ field }, value]) => (field[0] === part ? [[field[1], value]] : [])))

/** Options of `brim agent run` or `brim bridge run`. */
export const optionsOf = (program: 'agent' | 'bridge', settings: Settings): Options =>
  Object.fromEntries(
    entriesOf(settings).flatMap(([place, value]) => {
      const option = place[program]
      return option === undefined ? [] : [[option, value]]
    }),
  )

/** As in `draft-limit 4, draft-threshold 0.6`. */
export const settingsText = (settings: Settings): string =>
  entriesOf(settings)
    .map(([{ agent, bridge }, value]) => `${bridge ?? agent} ${value}`)
    .join(', ')
