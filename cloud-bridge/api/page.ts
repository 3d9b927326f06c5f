import { PageFiles } from '../../core/answer/api/page.ts'
import { pageOperations } from '../../core/wire/protocol/http/page.ts'
import { type Routes, StreamResponse } from '../http/router.ts'

/** `/` and `/page/…`: the page. @param authRequired whether callers must prove their identity now */
export function pageRoutes(authRequired: () => boolean): Routes {
  const files = new PageFiles()
  return (router) => {
    router.serve(
      pageOperations.index,
      ({ headers }) => new StreamResponse(files.document({ server: 'bridge', auth: authRequired() }, headers)),
    )
    router.serve(pageOperations.file, ({ params: { file }, headers }) => new StreamResponse(files.file(file, headers)))
  }
}
