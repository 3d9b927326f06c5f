import { z } from 'zod'
import type { Io } from '../base/io.ts'
import { type Flag, flagsOf, parseFlags } from './flags.ts'

export type Example = readonly [commandLine: string, note: string]

/** A command as data: its help, docs/cli.md and the parsing of its command line are made from it. */
export interface Command {
  /** What follows its name in the usage line; absent: its positionals and required options. */
  readonly usage?: string
  readonly examples: readonly Example[]
  /** Printed below the options. */
  readonly notes?: string
  /** Its options and positionals. */
  readonly flags: readonly Flag[]
  /** Headings in its help, each by the name of the option that it stands before. */
  readonly groups?: Readonly<Record<string, string>>
  /** Options of another command that it takes too, and that its help does not list. */
  readonly alsoTakes?: { readonly command: string; readonly flags: readonly Flag[] }
  /** Options may also be set in a configuration file: only `run` knows which required ones are missing. */
  readonly readsFile?: boolean
  /** @param values by flag name. @throws BrimError USAGE, and what the command throws */
  run(values: Readonly<Record<string, unknown>>, positionals: readonly string[], io: Io): Promise<void>
}

/** Commands under one word, loaded when they are needed. */
export interface Menu {
  readonly examples: readonly Example[]
  /** Name with positionals, as in `show <id>` → its summary and its module. */
  readonly commands: Readonly<Record<string, Entry>>
}

export type Entry = readonly [summary: string, load: () => Loaded | Promise<Loaded>]
type Loaded = { readonly command: Command } | { readonly menu: Menu }

const json = z.boolean().default(false)

export type OptionsOf<Shape extends z.ZodRawShape> = z.output<z.ZodObject<Shape>> & { json: boolean }

interface CommandSpec<Shape extends z.ZodRawShape> extends Pick<Command, 'usage' | 'examples' | 'notes'> {
  readonly options: Shape
  run(options: OptionsOf<Shape>, io: Io): Promise<void> | void
}

/** @param spec every command also has `json`: one JSON document on stdout in place of text */
export function defineCommand<Shape extends z.ZodRawShape>({ options, run, ...texts }: CommandSpec<Shape>): Command {
  const schema = z.strictObject(options)
  return {
    ...texts,
    flags: flagsOf(schema),
    async run(values, positionals, io) {
      const parsed = parseFlags(schema, values, positionals)
      await run({ ...parsed, json: json.parse(values.json) }, io)
    },
  }
}
