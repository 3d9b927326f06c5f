import type { z } from 'zod'
import type { Io } from '../../core/kit/base/io.ts'
import { type Command, defineCommand, type OptionsOf } from '../../core/kit/cli/command.ts'
import { bridgeOptions } from '../../core/kit/login/bridge-access.ts'
import { type AdministrationOptions, administer, administrationOptions } from './administration.ts'
import { bridgeClient, type Received, type RequestClient } from './bridge-client.ts'

/** What a person reads: on stdout; `note` on stderr. */
type Shown = string | { readonly out?: string; readonly note: string | undefined }

interface RequestSpec<Shape extends z.ZodRawShape, T> extends Pick<Command, 'usage' | 'examples' | 'notes'> {
  /** Besides those that say where the bridge is. */
  readonly options?: Shape
  readonly request: (client: RequestClient, given: OptionsOf<Shape>) => Promise<Received<T>>
  readonly text: (value: T, given: OptionsOf<Shape>) => Shown
}

type Ask = (client: RequestClient) => Promise<Received<unknown>>

const requestCommand =
  (where: z.ZodRawShape, open: (given: AdministrationOptions, io: Io, ask: Ask) => ReturnType<Ask>) =>
  <T, Shape extends z.ZodRawShape = Record<never, never>>({ options, request, text, ...texts }: RequestSpec<Shape, T>): Command =>
    defineCommand<z.ZodRawShape>({
      ...texts,
      options: { ...options, ...where },
      async run(all, io) {
        const given = all as OptionsOf<Shape>
        const { raw, value } = await open(all as AdministrationOptions, io, (client) => request(client, given))
        if (given.json) return io.out(JSON.stringify(raw))
        const shown = text(value as T, given)
        const { out, note } = typeof shown === 'string' ? { out: shown, note: undefined } : shown
        if (out !== undefined) io.out(out)
        if (note !== undefined) io.err(note)
      },
    })

/** A command that asks the bridge over HTTP, and prints its response: as it came with --json, else as text. */
export const bridgeCommand = requestCommand(bridgeOptions, async (given, io, ask) => ask(await bridgeClient(given, io)))

/** As bridgeCommand, for what an admin may also do in the state folder of a bridge on this machine. */
export const adminCommand = requestCommand(administrationOptions, administer)
