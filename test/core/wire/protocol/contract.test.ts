import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { channels, dataMessages } from '../../../../core/wire/protocol/contract.ts'
import { deviceTopics } from '../../../../core/wire/protocol/topics.ts'
import { asyncApi, type Schema, variantsOf } from '../../../../scripts/docs/asyncapi.ts'
import { generatedDocs } from '../../../../scripts/docs/generated-docs.ts'
import { schemaCompiler, strictly } from '../../../support/json-schemas.ts'

const messages = [...channels.map(({ message }) => message), dataMessages.device, dataMessages.bridge]
const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null

describe('the contract', () => {
  it('has an entry for every topic of a device', () => {
    const spoken = channels.map(({ address }) => /\/device\/\{device\}\/(\w+)$/.exec(address)?.[1]).filter(Boolean)
    expect(spoken.sort()).toEqual([...deviceTopics].sort())
  })

  it('retains only states, and what programs that have just connected show of devices', () => {
    for (const { address, retain } of channels) expect([address, retain]).toEqual([address, /\/state$|\/home\//.test(address)])
  })

  it.each(messages.flatMap((message) => variantsOf(message).map((variant) => ({ ...variant, schema: message.schema }))))(
    'shows an example of $name that the code reads without loss',
    ({ schema, examples }) => {
      expect(examples.length).toBeGreaterThan(0)
      for (const example of examples) expect(schema.parse(example)).toEqual(example)
    },
  )
})

const docs = await generatedDocs()

describe('generated documents', () => {
  it.each(docs.map((doc) => [doc.file.pathname.split('/').at(-1), doc] as const))(
    '%s is current (else: npm run docs)',
    (_, { file, text }) => expect(readFileSync(file, 'utf8')).toBe(text),
  )

  // The official JSON schema of AsyncAPI is in no package of Brim, so the common mistakes are checked here.
  it('is an AsyncAPI 3.0 document without dangling references', () => {
    const document = asyncApi()
    const found = (pointer: string) =>
      pointer
        .slice(2)
        .split('/')
        .reduce<unknown>((at, key) => (isObject(at) ? at[key] : undefined), document)
    const refs: string[] = []
    const walk = (value: unknown): void => {
      if (!isObject(value)) return
      if (typeof value.$ref === 'string') refs.push(value.$ref)
      for (const inner of Object.values(value)) walk(inner)
    }
    walk(document)
    expect(refs.length).toBeGreaterThan(50)
    expect(refs.filter((pointer) => !isObject(found(pointer)))).toEqual([])
    expect(document).toMatchObject({ asyncapi: '3.0.0', info: { title: 'Brim', version: '1' } })
    const keys = [document.channels, document.operations, ...Object.values(document.components)].flatMap((part) =>
      Object.keys(part),
    )
    expect(keys.filter((key) => !/^[\w.-]+$/.test(key))).toEqual([])
    for (const server of Object.values(document.servers))
      expect(server).toMatchObject({ host: expect.any(String), protocol: expect.any(String) })
    for (const [name, operation] of Object.entries(document.operations)) {
      expect(['send', 'receive']).toContain(operation.action)
      const own = operation.messages.filter(({ $ref }) => $ref.startsWith(`${operation.channel.$ref}/messages/`))
      expect([name, own.length]).toEqual([name, operation.messages.length])
      expect(own.length).toBeGreaterThan(0)
    }
    for (const { address, parameters = {} } of Object.values(document.channels) as { address: string; parameters?: object }[])
      expect([...address.matchAll(/\{(\w+)\}/g)].map(([, id]) => id)).toEqual(Object.keys(parameters))
  })

  it('has JSON Schemas that accept every field of the examples', async () => {
    const compile = await schemaCompiler()
    const { schemas } = asyncApi().components
    for (const { name, examples } of messages.flatMap(variantsOf)) {
      const check = compile(strictly(schemas[name] as Schema))
      for (const example of examples) expect(check(example), name).toEqual([])
      expect(check({ ...examples[0], addedLater: 1 })).toEqual([expect.stringContaining('addedLater')])
    }
  })
})
