import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { runScenario } from '../../../../lab/simulate/run/run-scenario.ts'
import { parseScenarioFile } from '../../../../lab/simulate/scenario/scenario-file.ts'
import { scenarioSchema } from '../../../../lab/simulate/scenario/schema.ts'
import { schemaCompiler } from '../../../support/json-schemas.ts'

const folder = fileURLToPath(new URL('../../../../docs/examples', import.meta.url))
const files = readdirSync(folder).filter((name) => name.endsWith('.yaml'))
const textOf = (file: string) => readFileSync(`${folder}/${file}`, 'utf8')

const { $schema: _, ...schema } = scenarioSchema() as { $schema: string; definitions: Readonly<Record<string, Node>> }
const check = (await schemaCompiler())(schema)

describe('the example scenarios', () => {
  it.each(files)('%s runs, every variant of it', async (file) => {
    const variants = parseScenarioFile(textOf(file), file, ['workload.requests=6'])
    for (const { scenario } of variants) {
      const { all, isComplete } = await runScenario(scenario, { folders: [folder] })
      expect([all.answered, all.requests, isComplete]).toEqual([6, 6, true])
    }
  })

  it.each(files)('%s names the schema in its first line, which accepts it', (file) => {
    const text = textOf(file)
    expect(text.split('\n')[0]).toBe('# yaml-language-server: $schema=../scenario.schema.json')
    const scenario = parse(text) as Record<string, unknown>
    expect(check(scenario)).toEqual([])
    expect(check({ ...scenario, wrkload: 1 })).toHaveLength(1)
  })
})

interface Node {
  readonly description?: string
  readonly properties?: Readonly<Record<string, Node>>
  readonly anyOf?: readonly Node[]
  readonly items?: Node
}

/** Paths of the fields without a description. */
function undescribed(node: Node, path: string): string[] {
  const own = Object.entries(node.properties ?? {}).flatMap(([field, value]) => [
    ...(value.description === undefined ? [`${path}.${field}`] : []),
    ...undescribed(value, `${path}.${field}`),
  ])
  const inside = [...(node.anyOf ?? []), ...(node.items ? [node.items] : [])]
  return [...own, ...inside.flatMap((each) => undescribed(each, path))]
}

it('the schema explains every field', () => {
  expect(Object.entries(schema.definitions).flatMap(([name, node]) => undescribed(node, name))).toEqual([])
})
