import { relative } from 'node:path'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** Files that take ten seconds and more, the longest first. One that has become shorter does no harm here. */
const long = [
  'test/e2e/silent-device.integration.test.ts',
  'test/gpu/conformance.integration.test.ts',
  'test/lab/bench/privacy.integration.test.ts',
  'test/lab/bench/structured.integration.test.ts',
  'test/lab/bench/page.integration.test.ts',
  'test/gpu/families.integration.test.ts',
  'test/lab/bench/cluster.integration.test.ts',
  'test/core/model/bundle/memory.integration.test.ts',
  'test/gpu/choose-provider.integration.test.ts',
  'test/lab/bench/attack.integration.test.ts',
  'test/lab/bench/fleet.integration.test.ts',
  'test/security/hostile-graphs.integration.test.ts',
  'test/gpu/device-faults.integration.test.ts',
]

/**
 * Runs long files first, so that none of them is left to one worker at the end. Vitest itself knows how long a file takes only
 * after a run, and takes larger files first until then.
 */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId, project }: TestSpecification) => {
      const { sequence, isolate } = project.config
      const place = long.indexOf(relative(this.ctx.config.root, moduleId))
      // A worker goes on only with files of its own project; isolated files take a new one each.
      return [sequence.groupOrder, isolate ? 0 : 1, place < 0 ? long.length : place] as const
    }
    const ranked = (await super.sort(files)).map((file) => ({ file, rank: rank(file) }))
    ranked.sort((a, b) => a.rank[0] - b.rank[0] || a.rank[1] - b.rank[1] || a.rank[2] - b.rank[2])
    return ranked.map(({ file }) => file)
  }
}
