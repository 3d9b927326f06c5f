import type { z } from 'zod'
import type { Io } from '../base/io.ts'
import { withShownUrls } from '../base/shown-url.ts'
import type { Command, Menu, OptionsOf } from '../cli/command.ts'
import { type Configuration, defineConfiguredCommand } from './configured-command.ts'
import { type EffectiveSetting, effectiveSettings, mergeLayers, type Settings } from './setting.ts'

interface ConfiguredProgram<Shape extends z.ZodRawShape> {
  /** As in `brim agent`. */
  readonly words: string
  /** Of its command `run`. */
  readonly options: Shape
  readonly defaultFile: () => string | undefined
  /** What the fleet has set. */
  readonly fleetOf?: (configuration: Configuration<Shape>, io: Io) => Settings
  /** @throws BrimError CONFIG_INVALID if the program would not start with these options */
  readonly check: (options: OptionsOf<Shape>, io: Io) => void
  /** @throws BrimError if a file that these options name cannot be used */
  readonly readFiles: (options: OptionsOf<Shape>, io: Io) => Promise<void>
}

/** `… config check` and `… config show`: what `… run` would do with the same options and file. */
export function configMenu<Shape extends z.ZodRawShape>(program: ConfiguredProgram<Shape>): Menu {
  const { words } = program
  const example = `${words} config show --config ${words.split(' ')[1]}.yaml`
  return {
    examples: [
      [`${words} config check`, 'of the installed service'],
      [example, 'options of a file, and where each value was set'],
    ],
    commands: {
      check: [
        'check a configuration file, options, and the files that they name, without starting anything',
        async () => ({ command: check(program) }),
      ],
      show: ['show the effective options, and where each value was set', async () => ({ command: show(program) })],
    },
  }
}

const shared = <Shape extends z.ZodRawShape>({ words, options, defaultFile }: ConfiguredProgram<Shape>) => ({
  options,
  optionsOf: `${words} run`,
  defaultFile,
})

function check<Shape extends z.ZodRawShape>(program: ConfiguredProgram<Shape>): Command {
  const { words } = program
  return defineConfiguredCommand({
    ...shared(program),
    examples: [[`${words} config check --config edited.yaml`, 'before the file is installed: exit code 2 if it is wrong']],
    async run(configuration, io) {
      await program.readFiles(effectiveOf(configuration, program, io).parsed, io)
      const { file, json } = configuration
      if (json) io.out(JSON.stringify({ ok: true, config: file ?? null }))
      else io.out(`${file ?? 'the configuration'}: no mistakes found`)
    },
  })
}

function show<Shape extends z.ZodRawShape>(program: ConfiguredProgram<Shape>): Command {
  const { words } = program
  return defineConfiguredCommand({
    ...shared(program),
    examples: [
      [`${words} config show`, 'of the installed service'],
      [`${words} config show --json | jq '.options[] | select(.source != "default")'`, 'what was set'],
    ],
    run(configuration, io) {
      const { file, json } = configuration
      const options = withShownUrls(effectiveOf(configuration, program, io).options)
      if (json) io.out(JSON.stringify({ config: file ?? null, options }))
      else io.out(options.map(lineOf(options)).join('\n'))
    },
  })
}

/** @throws BrimError USAGE, CONFIG_INVALID */
function effectiveOf<Shape extends z.ZodRawShape>(
  configuration: Configuration<Shape>,
  { fleetOf, check }: ConfiguredProgram<Shape>,
  io: Io,
): { readonly parsed: OptionsOf<Shape>; readonly options: EffectiveSetting[] } {
  const { flags, owner, parse } = configuration
  const fleet = fleetOf?.(configuration, io) ?? new Map()
  const parsed = parse(fleet)
  check(parsed, io)
  return { parsed, options: effectiveSettings(flags, mergeLayers(fleet, owner)) }
}

function lineOf(options: readonly EffectiveSetting[]) {
  const width = Math.max(...options.map(({ name }) => name.length))
  const valueWidth = Math.min(40, Math.max(...options.map((option) => textOf(option).length)))
  return (option: EffectiveSetting) => `${option.name.padEnd(width)}  ${textOf(option).padEnd(valueWidth)}  ${option.source}`
}

const textOf = ({ value }: EffectiveSetting) => (value === null ? '-' : Array.isArray(value) ? value.join(', ') : String(value))
