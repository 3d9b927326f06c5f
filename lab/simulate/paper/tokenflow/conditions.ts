import { markdownTable } from '../../../frame/page.ts'
import type { Distribution } from '../../scenario/distribution.ts'
import { scenarioOf, servers, setups } from './settings.ts'

/** What the page shows of the set-ups and of the systems that are compared. */
export const conditionTables = () => ({
  setupTable: markdownTable(
    ['set-up', 'GPU', 'model', 'memory share', 'requests', 'prompt tokens', 'output tokens'],
    Object.keys(setups).map(setupRow),
  ),
  serverTable: markdownTable(
    ['server', 'settings of the scenario’s cloud'],
    Object.entries(servers).map(([name, { cloud }]) => [
      name,
      Object.entries(cloud)
        .map(([key, value]) => `\`${key}: ${value}\``)
        .join(', '),
    ]),
  ),
})

function setupRow(setup: string): string[] {
  const { cloud, workload } = scenarioOf({ setup, server: 'SGLang' }, 1)
  const { requests, arrivals, promptTokens, outputTokens } = workload
  const { gpu, model, memoryShare } = cloud!
  const load =
    arrivals.kind === 'trace'
      ? `${requests} of ${arrivals.file} from ${arrivals.skipS} s on, ${arrivals.speed} times as fast`
      : arrivals.kind === 'poisson'
        ? `${requests}, ${arrivals.perS}/s`
        : `${requests} at once`
  const lengths = [promptTokens, outputTokens].map((tokens) => (arrivals.kind === 'trace' ? 'recorded' : meanOf(tokens)))
  return [setup, gpu, model, String(memoryShare), load, ...lengths]
}

const meanOf = (tokens: Distribution | number | undefined): string =>
  typeof tokens === 'object' && 'mean' in tokens ? String(tokens.mean) : String(tokens)
