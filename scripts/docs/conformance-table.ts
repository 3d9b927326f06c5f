import { readFileSync } from 'node:fs'
import { z } from 'zod'
import { projectRoot } from '../../core/kit/base/version.ts'

const Row = z.object({
  request: z.string(),
  path: z.string(),
  agent: z.string(),
  bridge: z.string(),
  /** Measured by the tests, as the two before. */
  llamaCpp: z.string(),
  /** As its documentation says, and Ollama's. */
  vllm: z.string(),
  ollama: z.string(),
})

const begin = '<!-- written by npm run docs from scripts/docs/conformance.json -->\n'
const end = '<!-- end -->\n'

/** docs/api.md with the table of requests as test/e2e/conformance.integration.test.ts has shown it. */
export function apiPage(): string {
  const page = readFileSync(new URL('docs/api.md', projectRoot), 'utf8')
  const rows = z.array(Row).parse(JSON.parse(readFileSync(new URL('scripts/docs/conformance.json', projectRoot), 'utf8')))
  const paths = [...new Set(rows.map(({ path }) => path))]
  const lines = paths.flatMap((path) => [
    `| **\`${path}\`** | | | | | |`,
    ...rows
      .filter((row) => row.path === path)
      .map(
        ({ request, agent, bridge, llamaCpp, vllm, ollama }) =>
          `| ${[request, agent, bridge, llamaCpp, vllm, ollama].join(' | ')} |`,
      ),
  ])
  const table = ['| request | agent | bridge | llama.cpp | vLLM | Ollama |', '| --- | --- | --- | --- | --- | --- |', ...lines]
  return `${page.slice(0, page.indexOf(begin) + begin.length)}\n${table.join('\n')}\n\n${page.slice(page.indexOf(end))}`
}
