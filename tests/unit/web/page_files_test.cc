#include "server/web/page_files.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "server/interchange/gunzip.h"

namespace tunefarm {
namespace {

const std::string& Script() {
  static const std::string& script = *new std::string(5000, 'x');
  return script;
}

HttpRequest Get(const std::string& path, const std::map<std::string, std::string>& headers = {}) {
  HttpRequest request;
  request.method = "GET";
  request.path = path;
  request.headers = headers;
  return request;
}

std::string HeaderOf(const HttpAnswer& answer, const std::string& name) {
  for (const auto& [one, value] : answer.headers) {
    if (one == name) return value;
  }
  return "";
}

TEST(PageFilesTest, FilesAreServedPlainAndCompressed) {
  const PageFiles files({{"index.html", "text/html; charset=utf-8", "<!doctype html>"},
                         {"app.js", "text/javascript; charset=utf-8", Script()}});
  for (const char* const path : {"/", "/index.html"}) {
    EXPECT_EQ(files.Answer(Get(path)).body, "<!doctype html>") << path;
    EXPECT_EQ(files.Answer(Get(path)).content_type, "text/html; charset=utf-8");
  }
  EXPECT_EQ(files.Answer(Get("/app.js")).body, Script());
  const HttpAnswer packed = files.Answer(Get("/app.js", {{"accept-encoding", "gzip, deflate, br"}}));
  EXPECT_EQ(HeaderOf(packed, "Content-Encoding"), "gzip");
  EXPECT_LT(packed.body.size(), 100u);
  EXPECT_EQ(interchange::Gunzip(packed.body, "app.js", Script().size()).value(), Script());
  for (const char* const path : {"/app.css", "/../etc/passwd", "/app.js/", "//app.js", "app.js", ""}) {
    EXPECT_EQ(files.Answer(Get(path)).status, 404) << path;
  }
  HttpRequest post = Get("/");
  post.method = "POST";
  EXPECT_EQ(files.Answer(post).status, 405);
}

TEST(PageFilesTest, ABrowserThatHasAFileIsToldSo) {
  const PageFiles files({{"app.js", "text/javascript", Script()}});
  const std::string tag = HeaderOf(files.Answer(Get("/app.js")), "ETag");
  ASSERT_FALSE(tag.empty());
  const HttpAnswer known = files.Answer(Get("/app.js", {{"if-none-match", "W/" + tag}}));
  EXPECT_EQ(known.status, 304);
  EXPECT_EQ(known.body, "");
  EXPECT_EQ(files.Answer(Get("/app.js", {{"if-none-match", "\"other\""}})).status, 200);
}

TEST(PageFilesTest, AProgramWithoutThePageSaysSo) {
  const HttpAnswer answer = PageFiles({}).Answer(Get("/"));
  EXPECT_EQ(answer.status, 404);
  EXPECT_NE(answer.body.find("built without the dashboard's page"), std::string::npos);
}

}  // namespace
}  // namespace tunefarm
