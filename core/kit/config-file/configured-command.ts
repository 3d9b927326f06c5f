import { z } from 'zod'
import { BrimError } from '../base/errors.ts'
import type { Io } from '../base/io.ts'
import type { Command, OptionsOf } from '../cli/command.ts'
import { type Flag, flagProblemsOf, flagsOf, settingsOf } from '../cli/flags.ts'
import { mergeLayers, type Setting, type Settings, type SettingValue } from './setting.ts'

const configOption = z.string().min(1).optional().meta({
  description: 'YAML file with options by their names, such as "api-port: 7071"; the command line takes precedence',
  fallback: 'none',
})

export interface Configuration<Shape extends z.ZodRawShape> {
  /** Those of the command, without `config`. */
  readonly flags: readonly Flag[]
  /** Path of the configuration file; undefined: there is none. */
  readonly file: string | undefined
  /** What the owner has set in the file and on the command line. */
  readonly owner: Settings
  readonly json: boolean
  /**
   * The parsed options.
   * @param fleet settings that those of the owner take precedence over
   * @throws BrimError USAGE, or CONFIG_INVALID for an option of the file or of the fleet
   */
  parse(fleet?: Settings): OptionsOf<Shape>
}

interface ConfiguredSpec<Shape extends z.ZodRawShape> extends Pick<Command, 'usage' | 'examples' | 'notes' | 'groups'> {
  readonly options: Shape
  /** Absent: its help lists the options. */
  readonly optionsOf?: string
  /** File that is read without `--config`, where it exists. */
  readonly defaultFile?: () => string | undefined
  run(configuration: Configuration<Shape>, io: Io): Promise<void> | void
}

/** A command whose options may also be set in a file, `--config`. */
export function defineConfiguredCommand<Shape extends z.ZodRawShape>({
  options,
  optionsOf,
  defaultFile,
  run,
  ...texts
}: ConfiguredSpec<Shape>): Command {
  const schema = z.strictObject(options)
  const flags = flagsOf(schema)
  const fileFlags = flagsOf(z.strictObject({ config: configOption }))
  return {
    ...texts,
    ...(optionsOf === undefined
      ? { flags: [...fileFlags, ...flags] }
      : { flags: fileFlags, alsoTakes: { command: optionsOf, flags } }),
    readsFile: true,
    async run(values, _, io) {
      const file = configOption.parse(values.config) ?? defaultFile?.()
      // YAML's parser is loaded where there is a file.
      const ofFile = file === undefined ? new Map() : (await import('./read-config-file.ts')).readConfigFile(file, flags)
      const owner = mergeLayers(ofFile, givenOf(flags, values))
      const parse = (fleet: Settings = new Map()) => ({ ...parseSettings(schema, mergeLayers(fleet, owner), file), json })
      const json = values.json === true
      await run({ flags, file, owner, json, parse }, io)
    },
  }
}

/** The options on the command line. @param values by name of the option */
function givenOf(flags: readonly Flag[], values: Readonly<Record<string, unknown>>): Settings {
  const given = new Map<string, Setting>()
  for (const { name } of flags)
    if (values[name] !== undefined) given.set(name, { value: values[name] as SettingValue, source: `--${name}` })
  return given
}

/** @param file the configuration file, for messages */
export function parseSettings<Shape extends z.ZodRawShape>(
  schema: z.ZodObject<Shape, z.core.$strict>,
  settings: Settings,
  file: string | undefined,
): z.output<z.ZodObject<Shape, z.core.$strict>> {
  const flags = flagsOf(schema)
  const values = Object.fromEntries([...settings].map(([name, { value }]) => [name, value]))
  const label = (name: string) => {
    const source = settings.get(name)?.source
    if (source === undefined) return file === undefined ? `--${name}` : `"${name}" in ${file}, or --${name} here,`
    return source === `--${name}` ? source : `${source}: ${name}`
  }
  const repeated = flags.filter(({ name, isList }) => !isList && Array.isArray(values[name]))
  const clashing = flags.filter(({ name, conflicts }) => settings.has(name) && conflicts !== undefined && settings.has(conflicts))
  const parsed = schema.safeParse(settingsOf(flags, values))
  const wrong = [
    ...repeated.map(({ name }) => `--${name} is given more than once`),
    ...clashing.map(({ name, conflicts = '' }) => `${label(name)} and ${label(conflicts)} exclude each other`),
    ...(parsed.error && repeated.length === 0 ? flagProblemsOf(parsed.error, flags, values, label) : []),
  ]
  if (parsed.success && wrong.length === 0) return parsed.data
  const isUsage = [...settings.values()].every(({ source }) => source.startsWith('--'))
  throw new BrimError(isUsage ? 'USAGE' : 'CONFIG_INVALID', wrong.join('; '), {
    hint:
      repeated.length > 0
        ? 'give it once'
        : isUsage
          ? 'add --help to see the options and examples'
          : '"brim agent config show" and "brim bridge config show" list where each value was set',
  })
}
